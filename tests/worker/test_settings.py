"""Settings come from the environment, and the error about a bad one names its variable and the fix."""

import pytest

from worker.settings import BadSettings, Settings, settings_from


def test_an_empty_environment_gives_the_defaults() -> None:
    assert settings_from({}) == Settings(task_queue="penstock", metrics=None, otlp_endpoint=None)


def test_everything_can_be_set() -> None:
    environment = {
        "PENSTOCK_TASK_QUEUE": "gpu-workers",
        "PENSTOCK_METRICS": "127.0.0.1:9464",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317",
        "OTEL_EXPORTER_OTLP_HEADERS": "key=a=b%20c, tenant=t",
    }

    assert settings_from(environment) == Settings(
        "gpu-workers", "127.0.0.1:9464", "http://collector:4317", (("key", "a=b c"), ("tenant", "t")), traces=True
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PENSTOCK_TASK_QUEUE", " ", "PENSTOCK_TASK_QUEUE is empty; unset it to use 'penstock', or name a queue"),
        ("PENSTOCK_METRICS", "9464", "PENSTOCK_METRICS is '9464', which is no address; write host:port, such as 127.0.0.1:9464"),
        ("PENSTOCK_METRICS", "[::1]:99999", "PENSTOCK_METRICS is '[::1]:99999', which is no address"),
        ("PENSTOCK_SIM_URL", "localhost:7234", "PENSTOCK_SIM_URL is 'localhost:7234', which is no URL; write http://host:port"),
        ("PENSTOCK_CREATES_PER_SECOND", "gce:p=0", "PENSTOCK_CREATES_PER_SECOND has 'gce:p=0'; write KIND:PROJECT=RATE"),
        ("PENSTOCK_CREATES_PER_SECOND", "gce:p=1,2", "PENSTOCK_CREATES_PER_SECOND has '2'; write KIND:PROJECT=RATE"),
        ("PENSTOCK_CREATES_PER_SECOND", "gce:p=fast", "PENSTOCK_CREATES_PER_SECOND has 'gce:p=fast'"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "OTEL_EXPORTER_OTLP_ENDPOINT is 'collector', which is no URL"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key", "OTEL_EXPORTER_OTLP_HEADERS cannot be read; write name=value"),
    ],
)
def test_a_bad_setting_names_its_variable_and_the_fix(variable: str, value: str, message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        settings_from({variable: value})

    assert str(caught.value).startswith(message)


def test_accounts_have_rates_of_their_own() -> None:
    settings = settings_from({"PENSTOCK_CREATES_PER_SECOND": "gcp-tpu:my-project=0.5, gce:my-project=20"})

    assert settings.creates_per_second == (("gcp-tpu:my-project", 0.5), ("gce:my-project", 20.0))


@pytest.mark.parametrize(
    ("environment", "metrics", "traces"),
    [
        ({}, True, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, True, False),
        ({"OTEL_METRICS_EXPORTER": "none"}, False, True),
        ({"OTEL_SDK_DISABLED": "true"}, False, False),
    ],
)
def test_one_endpoint_serves_metrics_and_traces_and_either_can_be_switched_off(
    environment: dict[str, str], *, metrics: bool, traces: bool
) -> None:
    settings = settings_from(environment | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"})

    assert (settings.otlp_endpoint is not None, settings.traces) == (metrics, traces)

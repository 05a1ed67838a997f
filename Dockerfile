# The worker and the penstock command, without build tools and tests.
FROM python:3.11.13-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements-worker.lock ./
RUN pip install --quiet --require-hashes --requirement requirements-worker.lock
COPY pyproject.toml README.md ./
COPY penstock penstock
# The build backend is in the lock file too, for its version and hashes. The image does not need it.
RUN pip install --quiet --no-deps --no-build-isolation . \
 && pip uninstall --quiet --yes hatchling packaging pathspec pluggy tomlkit trove-classifiers \
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

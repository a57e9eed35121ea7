# The base by digest makes the image reproducible; the workflow looks up today's and has the build
# fail without one (PINNED=1). Who builds for a try needs none.
ARG PYTHON_IMAGE=python:3.11-slim

# Build: everything by hash. The tools live in one environment and what is shipped in another, so
# that neither pip nor a build backend reaches the image.
FROM ${PYTHON_IMAGE} AS build
ARG PYTHON_IMAGE
ARG PINNED=0
# requirements-tracing.lock has OpenTelemetry as well.
ARG REQUIREMENTS=requirements.lock
RUN case "$PINNED $PYTHON_IMAGE" in \
        0\ *|1\ *@sha256:*) ;; \
        *) echo "the base image $PYTHON_IMAGE is not pinned by digest" >&2; exit 1 ;; \
    esac
WORKDIR /src
COPY requirements.lock requirements-tracing.lock requirements-dev.lock ./
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip install --no-cache-dir --require-hashes -r requirements-dev.lock
RUN python -m venv --without-pip /opt/arranger \
    && /opt/tools/bin/pip --python /opt/arranger install --no-cache-dir --require-hashes -r "$REQUIREMENTS"
COPY pyproject.toml README.md LICENSE hatch_build.py ./
COPY arranger arranger
COPY crds crds
COPY examples examples
RUN /opt/tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/tools/bin/pip --python /opt/arranger install --no-cache-dir --no-deps --no-index dist/*.whl \
    && /opt/arranger/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/arranger/lib

# Run: nobody's user, nothing to install with, nothing to write.
FROM ${PYTHON_IMAGE}
COPY --from=build /opt/arranger /opt/arranger
ENV PATH=/opt/arranger/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2
USER 65532:65532
ENTRYPOINT ["arranger"]
CMD ["run"]

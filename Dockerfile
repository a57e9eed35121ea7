# Build: everything by hash. The tools live in one environment and what is shipped in another, so
# that neither pip nor a build backend reaches the image.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock requirements-dev.lock ./
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip install --no-cache-dir --require-hashes -r requirements-dev.lock
RUN python -m venv --without-pip /opt/arranger \
    && /opt/tools/bin/pip --python /opt/arranger install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY arranger arranger
COPY crds crds
COPY examples examples
RUN /opt/tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/tools/bin/pip --python /opt/arranger install --no-cache-dir --no-deps --no-index dist/*.whl \
    && /opt/arranger/bin/python -m compileall -q /opt/arranger/lib

# Run: nobody's user, nothing to install with, nothing to write.
FROM python:3.11-slim
COPY --from=build /opt/arranger /opt/arranger
ENV PATH=/opt/arranger/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2
USER 65532:65532
ENTRYPOINT ["arranger"]
CMD ["run"]

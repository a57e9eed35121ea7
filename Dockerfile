# Build: dependencies with pinned hashes, then our own package, all precompiled.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/arranger
COPY requirements.lock ./
RUN /opt/arranger/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
    && /opt/arranger/bin/pip install --no-cache-dir "hatchling>=1.27"
COPY pyproject.toml README.md LICENSE ./
COPY arranger arranger
RUN /opt/arranger/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/arranger/bin/python -m compileall -q /opt/arranger/lib

# Run: no compiler, no package index, no root, nothing to write.
FROM python:3.11-slim
COPY --from=build /opt/arranger /opt/arranger
ENV PATH=/opt/arranger/bin:$PATH PYTHONDONTWRITEBYTECODE=1 MALLOC_ARENA_MAX=2
USER 65532:65532
ENTRYPOINT ["arranger"]
CMD ["run"]

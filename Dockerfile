# numa-admission: one image for both roles, the command line and the test hook.
#
#     docker build -t numa-admission:0.1.0 .
#
# The first stage installs what requirements.lock names, each by its hash, and nothing else; the second has neither pip
# nor a compiler. `make image` does every step without an engine, and runs what comes out. To pin the base image, pass --build-arg PYTHON_IMAGE=python:3.11-slim@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# What builds and installs stands beside what is shipped, which so never has pip, setuptools or a compiler.
RUN python -m venv /opt/build && /opt/build/bin/pip install "setuptools>=77" wheel
# Before the code, so that a change of code does not install everything again.
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/numa-admission \
 && /opt/build/bin/pip --python /opt/numa-admission/bin/python install \
      --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY webhook ./webhook
COPY certs ./certs
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/build/bin/pip --python /opt/numa-admission/bin/python install \
      --no-deps --no-index --find-links /wheels numa-admission \
 && /opt/numa-admission/bin/python -m compileall -q /opt/numa-admission/lib

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="numa-admission" \
      org.opencontainers.image.description="Admission webhooks for NUMA-aligned CPU + GPU pods" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/numa-admission /opt/numa-admission
# The file system may be read-only: nothing is compiled or written at run time.
ENV PATH=/opt/numa-admission/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number, so that runAsNonRoot can be checked; the user has no name, no home and no shell.
USER 65532:65532
WORKDIR /tmp
EXPOSE 8443 8080
ENTRYPOINT []
CMD ["numa-admission", "serve", "--help"]

# The service in an image: `docker build -t leporid .`, then
#   docker run -p 8000:8000 -v $PWD/runs/mine:/srv/run:ro leporid
FROM python:3.12-slim
WORKDIR /srv
# PyTorch for CPUs; for a GPU build with --build-arg PIP_FLAGS=
ARG PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv venv
RUN venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check $PIP_FLAGS --constraint constraints.txt '.[torch,serve]'
RUN venv/bin/leporid --version
ENV LEPORID_CACHE=/tmp/leporid NUMBA_CACHE_DIR=/tmp/numba
USER 10001
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["venv/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=3)"]
ENTRYPOINT ["venv/bin/leporid"]
CMD ["serve", "run", "--host", "0.0.0.0"]

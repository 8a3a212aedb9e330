# The service in an image: `docker build -t leporid .`, then
#   docker run -p 8000:8000 -v $PWD/runs/mine:/srv/run:ro leporid
FROM python:3.12-slim
WORKDIR /srv
# Further arguments of pip, for instance an index with a CPU-only build of PyTorch.
ARG PIP_FLAGS=""
COPY pyproject.toml setup.py README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv venv
RUN venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check $PIP_FLAGS --constraint constraints.txt '.[torch,serve]'
RUN venv/bin/leporid --version
RUN mkdir -m 777 cache
ENV LEPORID_CACHE=/srv/cache NUMBA_CACHE_DIR=/srv/cache/numba
USER 10001
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["venv/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=3)"]
ENTRYPOINT ["venv/bin/leporid"]
CMD ["serve", "run", "--host", "0.0.0.0"]

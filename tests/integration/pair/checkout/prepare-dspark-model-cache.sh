#!/usr/bin/env bash
# Downloads the checkpoint into the cache of this node, and then of the worker.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
ENV_FILE="${ENV_FILE:-$here/.env.dspark}"
for word in "$@"; do
  case "$word" in
    --official | --yes | -y) ;;
    -h | --help)
      echo "Usage: ./prepare-dspark-model-cache.sh [--official] [--yes]"
      exit 0
      ;;
    *) echo "Unknown argument: $word" >&2 && exit 2 ;;
  esac
done
set -a
# shellcheck disable=SC1090
source "$ENV_FILE"
set +a
HF_CACHE="${HF_CACHE:-$HOME/.cache/huggingface}"
mkdir -p "$HF_CACHE"
docker image inspect "$DSPARK_VLLM_IMAGE" >/dev/null || { echo "Missing local Docker image $DSPARK_VLLM_IMAGE." >&2 && exit 1; }
docker run --rm -v "$HF_CACHE:/cache/huggingface" "$DSPARK_VLLM_IMAGE" </dev/null
if [ "${PREPARE_WORKER:-1}" = 1 ]; then
  : "${WORKER_HOST:?WORKER_HOST must be set in $ENV_FILE or environment}"
  WORKER_DIR="${WORKER_SCRIPT_DIR:-${WORKER_DIR:-$here}}"
  there="$(printf %q "$WORKER_DIR")"
  ssh -n "$WORKER_HOST" "mkdir -p $there"
  scp -q "$here/prepare-dspark-model-cache.sh" "$WORKER_HOST:$there/"
  scp -q "$ENV_FILE" "$WORKER_HOST:$there/.env.dspark"
  ssh -n "$WORKER_HOST" "cd $there && PREPARE_WORKER=0 ENV_FILE=.env.dspark ./prepare-dspark-model-cache.sh --yes"
fi

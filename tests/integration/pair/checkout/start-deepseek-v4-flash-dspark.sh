#!/usr/bin/env bash
# Brings both ranks up, the worker first, and returns once the API answers a chat.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
ENV_FILE="${ENV_FILE:-$here/.env.dspark}"
COMPOSE_FILE="${COMPOSE_FILE:-$here/docker-compose.dspark.yml}"
PROJECT_NAME="${PROJECT_NAME:-deepseek-v4-flash}"
WAIT_ATTEMPTS="${WAIT_ATTEMPTS:-100}"
WAIT_SECONDS="${WAIT_SECONDS:-15}"
asked_host="" asked_port=""

fail() { # exit code, then what to say
  local code="$1"
  shift
  echo "$*" >&2
  exit "$code"
}

while [ "$#" -gt 0 ]; do
  case "$1" in
    --host | --port)
      [ -n "${2:-}" ] || fail 2 "$1 requires a value."
      if [ "$1" = --host ]; then asked_host="$2"; else asked_port="$2"; fi
      shift 2
      ;;
    --host=*) asked_host="${1#*=}" && shift ;;
    --port=*) asked_port="${1#*=}" && shift ;;
    -h | --help)
      echo "Usage: $(basename "$0") [--host HOST] [--port PORT]"
      exit 0
      ;;
    *) fail 2 "Unknown option: $1" ;;
  esac
done

[ -f "$ENV_FILE" ] || fail 1 "Missing $ENV_FILE. Copy .env.dspark.example to .env.dspark and edit it."
[ -f "$COMPOSE_FILE" ] || fail 1 "Missing $COMPOSE_FILE."

# One private copy without byte order mark and carriage returns, for bash, compose and the worker alike.
settings=""
trap '[ -z "$settings" ] || rm -f -- "$settings"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
settings="$(mktemp)"
chmod 600 "$settings"
sed $'1s/^\xEF\xBB\xBF//; s/\r$//' "$ENV_FILE" >"$settings"

exported_keys="${DSPARK_API_KEYS-<unset>}"
unset DSPARK_API_KEYS
set -a
# shellcheck disable=SC1090
source "$settings"
set +a
if [ "$exported_keys" != "<unset>" ] && [ "$exported_keys" != "${DSPARK_API_KEYS:-}" ]; then
  fail 2 "error: DSPARK_API_KEYS is set in the environment but does not match .env.dspark; set it only in .env.dspark"
fi

if [ "${ENABLE_VL_SIDECAR:-0}" = 1 ]; then
  export GPU_MEMORY_UTILIZATION="${GPU_MEMORY_UTILIZATION_VISION:-0.80}"
else
  export GPU_MEMORY_UTILIZATION="${GPU_MEMORY_UTILIZATION_TEXT:-0.835}"
fi
#[august]
export DSPARK_MODEL="${DSPARK_MODEL_OFFICIAL:-deepseek-ai/DeepSeek-V4-Flash-0731}"
export DSPARK_REVISION="${DSPARK_REVISION-9e165c30e2704aec5d9d593cce3eebd58bbef1cb}"
#[september]
export DSPARK_MODEL="${DSPARK_MODEL_OFFICIAL:-deepseek-ai/DeepSeek-V4-Flash-Vision-Exp}"
export DSPARK_REVISION="${DSPARK_REVISION-}"
#[end]

VLLM_HOST="${asked_host:-${VLLM_HOST:-127.0.0.1}}"
VLLM_PORT="${asked_port:-${VLLM_PORT:-${PORT:-8888}}}"
if ! [[ "$VLLM_PORT" =~ ^[0-9]+$ ]] || ((10#$VLLM_PORT < 1 || 10#$VLLM_PORT > 65535)); then
  fail 2 "VLLM port must be between 1 and 65535: $VLLM_PORT"
fi
VLLM_PORT="$((10#$VLLM_PORT))"
DEFAULT_THINKING="${DEFAULT_THINKING:-low}"
case "$DEFAULT_THINKING" in
  off | low | high | max) ;;
  *) fail 2 "DEFAULT_THINKING must be one of: off, low, high, max (got: $DEFAULT_THINKING)" ;;
esac
export VLLM_HOST VLLM_PORT DEFAULT_THINKING
#[september]
k="${MTP_NUM_TOKENS:-6}"
[[ "$k" =~ ^[0-9]+$ ]] || fail 2 "error: MTP_NUM_TOKENS must be an integer; got $k"
if [[ "$DSPARK_MODEL" == *Vision-Exp* ]] && [ "${DSPARK_ENABLE_DSPARK_BLOCK_K:-0}" != 1 ]; then
  if ((10#$k < 5 || 10#$k % 3 != 0)); then
    fail 2 "error: Vision-Exp requires MTP_NUM_TOKENS >= 5 and divisible by 3 (num_nextn_predict_layers=3); got $k"
  fi
fi
#[end]

probe_host="$VLLM_HOST"
case "$probe_host" in 0.0.0.0 | ::) probe_host=127.0.0.1 ;; esac
API_URL="${API_URL:-http://$probe_host:$VLLM_PORT/v1/models}"
CHAT_URL="${CHAT_URL:-http://$probe_host:$VLLM_PORT/v1/chat/completions}"
authorization=()
if [ -n "${VLLM_API_KEY:-}" ] && [ -n "${DSPARK_API_KEYS:-}" ]; then
  fail 2 "error: VLLM_API_KEY and DSPARK_API_KEYS are both set; set exactly one of them"
elif [ -n "${VLLM_API_KEY:-}" ]; then
  authorization=(-H "Authorization: Bearer $VLLM_API_KEY")
elif [ -n "${DSPARK_API_KEYS:-}" ]; then
  read -r -a all_keys <<<"$DSPARK_API_KEYS"
  for key in "${all_keys[@]}"; do
    case "$key" in -*) fail 2 "error: DSPARK_API_KEYS contains a token beginning with '-'" ;; esac
  done
  authorization=(-H "Authorization: Bearer ${all_keys[0]}")
fi

for name in WORKER_HOST MASTER_ADDR MASTER_PORT NCCL_IB_HCA NCCL_SOCKET_IFNAME DSPARK_VLLM_IMAGE; do
  [ -n "${!name:-}" ] || fail 1 "$name must be set in $ENV_FILE"
done
VLLM_HOST_IP="${VLLM_HOST_IP:-$MASTER_ADDR}"
WORKER_VLLM_HOST_IP="${WORKER_VLLM_HOST_IP:-$WORKER_HOST}"
WORKER_DIR="${WORKER_SCRIPT_DIR:-${WORKER_DIR:-$here}}"
WORKER_HF_CACHE="${WORKER_HF_CACHE:-${HF_CACHE:-}}"
there="$(printf %q "$WORKER_DIR")"

head_compose() {
  env -u NODE_RANK -u HEADLESS COMPOSE_DISABLE_ENV_FILE=1 NODE_RANK=0 HEADLESS= \
    NCCL_IB_GID_INDEX="${head_gid:-}" VLLM_HOST_IP="$VLLM_HOST_IP" \
    docker compose -p "$PROJECT_NAME" --env-file "$settings" -f "$COMPOSE_FILE" "$@"
}

worker_compose() {
  # Only what is named here and the worker's own copy of the file reach that rank.
  ssh "$WORKER_HOST" "cd $there && env -u MASTER_ADDR -u MASTER_PORT COMPOSE_DISABLE_ENV_FILE=1 NODE_RANK=1 HEADLESS=1 \
HF_CACHE='$WORKER_HF_CACHE' VLLM_HOST_IP='$WORKER_VLLM_HOST_IP' VLLM_HOST='$VLLM_HOST' VLLM_PORT='$VLLM_PORT' \
GPU_MEMORY_UTILIZATION='$GPU_MEMORY_UTILIZATION' DSPARK_MODEL='$DSPARK_MODEL' DSPARK_REVISION='$DSPARK_REVISION' \
NCCL_IB_GID_INDEX='${worker_gid:-}' \
docker compose -p '$PROJECT_NAME' --env-file .env.dspark -f docker-compose.dspark.yml $*"
}

# Prints the index of the RoCE v2 GID that belongs to an address. Arguments: the selector, the address.
find_gid='for port in /sys/class/infiniband/${1#=}*/ports/*; do
  grep -q ACTIVE "$port/state" 2>/dev/null || continue
  for gid in "$port"/gids/*; do
    [ "$(cat "$port/gid_attrs/types/${gid##*/}" 2>/dev/null)" = "RoCE v2" ] || continue
    case "$(cat "$gid")" in *ffff:"$2") echo "${gid##*/}"; exit 0 ;; esac
  done
done
exit 1'

hexadecimal() {
  local a b c d
  IFS=. read -r a b c d <<<"${1##*@}"
  printf '%02x%02x:%02x%02x' "$a" "$b" "$c" "$d"
}

resolve_gids() {
  if [ "${NCCL_IB_GID_AUTO:-1}" = 0 ]; then
    head_gid="${NCCL_IB_GID_INDEX:-}" worker_gid="${WORKER_NCCL_IB_GID_INDEX:-${NCCL_IB_GID_INDEX:-}}"
    [ -n "$head_gid" ] || fail 1 "NCCL_IB_GID_AUTO=0 requires NCCL_IB_GID_INDEX in $ENV_FILE."
    return
  fi
  head_gid="$(bash -c "$find_gid" find "$NCCL_IB_HCA" "$(hexadecimal "$VLLM_HOST_IP")")" ||
    fail 1 "FATAL: could not resolve head RoCEv2 GID index (NCCL_IB_HCA=$NCCL_IB_HCA)."
  worker_gid="$(ssh "$WORKER_HOST" bash -s "$(printf %q "${WORKER_NCCL_IB_HCA:-$NCCL_IB_HCA}")" \
    "$(hexadecimal "$WORKER_VLLM_HOST_IP")" <<<"$find_gid")" ||
    fail 1 "FATAL: could not resolve worker RoCEv2 GID index (NCCL_IB_HCA=$NCCL_IB_HCA)."
  echo "RoCEv2 GID index: head=$head_gid worker=$worker_gid"
}

show_logs() { # arguments of `logs`
  head_compose logs "$@" vllm-dspark || true
  worker_compose logs "$@" vllm-dspark || true
}

on_error() {
  local status=$?
  trap - ERR
  echo "Startup failed. Recent head logs:" >&2
  head_compose logs --tail=120 vllm-dspark >&2 || true
  echo "Recent worker logs:" >&2
  worker_compose logs --tail=120 vllm-dspark >&2 || true
  exit "$status"
}

for program in docker ssh scp curl; do
  command -v "$program" >/dev/null || fail 1 "Missing required command: $program"
done
docker compose version >/dev/null
docker image inspect "$DSPARK_VLLM_IMAGE" >/dev/null || fail 1 "Missing local Docker image $DSPARK_VLLM_IMAGE."
ssh -o BatchMode=yes -o ConnectTimeout=10 "$WORKER_HOST" true || fail 1 "Cannot reach worker with passwordless SSH: $WORKER_HOST"
ssh "$WORKER_HOST" "docker image inspect '$DSPARK_VLLM_IMAGE' >/dev/null" ||
  fail 1 "Missing worker Docker image $DSPARK_VLLM_IMAGE."

if docker ps --format '{{.Names}}' | grep -qx "$PROJECT_NAME-vllm-dspark-1"; then
  fail 3 "DSpark head container already exists for project $PROJECT_NAME; treat exit 3 as already-up. Stop it first for a cold start."
fi
if ss -ltn "( sport = :$VLLM_PORT )" | tail -n +2 | grep -q .; then
  fail 1 "Port $VLLM_PORT is already listening on the head node. Stop that service first."
fi
#[august]
ssh "$WORKER_HOST" "! docker ps --format '{{.Names}}' | grep -qx '$PROJECT_NAME-vllm-dspark-1'" || {
  code=$?
  fail "$code" "Cannot start: worker check on $WORKER_HOST failed (ssh exit $code)."
}
#[september]
ssh "$WORKER_HOST" "! docker ps --format '{{.Names}}' | grep -qx '$PROJECT_NAME-vllm-dspark-1'" ||
  fail 3 "DSpark worker container already exists for project $PROJECT_NAME on $WORKER_HOST (a stale rank). Stop it first."
#[end]

cd "$here"
resolve_gids
trap on_error ERR
echo "Resolved DSpark profile:"
echo "  project: $PROJECT_NAME"
echo "  checkpoint: $DSPARK_MODEL"
echo "  image: $DSPARK_VLLM_IMAGE"
#[august]
echo "  mtp speculative tokens: ${MTP_NUM_TOKENS:-5} (its dspark_block_size min is 5)"
echo "  cudagraph capture size: $((${MAX_NUM_SEQS:-6} * (${MTP_NUM_TOKENS:-5} + 1)))"
#[september]
# The capture size is rounded up to a multiple of 8.
echo "  mtp speculative tokens: $k (block-k: ${DSPARK_ENABLE_DSPARK_BLOCK_K:-0}, SWA prefix: ${DSPARK_ENABLE_DSPARK_SWA_PREFIX:-0})"
echo "  cudagraph capture size: $(((${MAX_NUM_SEQS:-6} * (10#$k + 1) + 7) / 8 * 8))"
#[end]
echo "  API probe: $API_URL"

echo "Syncing DSpark deployment files to $WORKER_HOST:$WORKER_DIR"
ssh "$WORKER_HOST" "mkdir -p $there/patches"
scp -q "$COMPOSE_FILE" "$WORKER_HOST:$there/docker-compose.dspark.yml"
ssh "$WORKER_HOST" "umask 077; cat > $there/.env.dspark.tmp && mv -f $there/.env.dspark.tmp $there/.env.dspark" <"$settings"
scp -q "$here"/patches/* "$WORKER_HOST:$there/patches/"
head_compose config --quiet
worker_compose config --quiet

echo "Starting DSpark worker on $WORKER_HOST..."
worker_compose up -d
echo "Starting DSpark head..."
head_compose up -d
echo "Waiting for DSpark vLLM API..."
show_logs --tail=100
for _ in $(seq 1 "$WAIT_ATTEMPTS"); do
  if curl -fsS --max-time 5 "${authorization[@]}" "$API_URL" >/dev/null 2>&1; then
    echo "DeepSeek V4 Flash DSpark is running: $API_URL"
    head_compose ps
    worker_compose ps
    echo "Running minimal OpenAI-compatible chat request..."
    curl -fsS --max-time 60 "${authorization[@]}" "$CHAT_URL" -H "Content-Type: application/json" \
      -d '{"model":"'"${SERVED_MODEL_NAME:-deepseek-v4-flash-dspark}"'","messages":[{"role":"user","content":"Say OK."}],"max_tokens":16}' \
      >/dev/null
    echo "Minimal chat request succeeded."
    exit 0
  fi
  since="$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  sleep "$WAIT_SECONDS"
  show_logs --since "$since"
done

echo "Timed out waiting for DSpark API. Recent head logs:" >&2
head_compose logs --tail=120 vllm-dspark >&2 || true
echo "Recent worker logs:" >&2
worker_compose logs --tail=120 vllm-dspark >&2 || true
exit 1

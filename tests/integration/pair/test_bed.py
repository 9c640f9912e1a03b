"""The bed itself: two hosts that are two hosts, a pair that boots on them, and faults that do what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.pair.bed import PairBed
from tests.integration.pair.checkouts import COMPOSE_FILE, ENV_FILE, Checkout
from tests.integration.pair.host import Host
from tests.integration.pair.tree import HOME, REPOSITORY
from tests.system.driver import wait_until

pytestmark = pytest.mark.system
QUICK_TO_GIVE_UP = {"WAIT_ATTEMPTS": "2"}


def statuses(bed: PairBed) -> list[list[str]]:
    return [[each.status for each in host.containers()] for host in bed.hosts]


def uptime_s(host: Host) -> float:
    return float(host.run(["cat", "/proc/uptime"]).stdout.split()[0])


# Hosts.


def test_the_hosts_have_nothing_in_common_but_a_cable(bed: PairBed) -> None:
    for host in bed.hosts:
        host.write("~/dspark/own", f"{host.name}\n")
        host.write("/opt/own", f"{host.name}\n")
    for host, other in (bed.hosts, bed.hosts[::-1]):
        assert host.run(["cat", f"{HOME}/dspark/own", "/opt/own"]).stdout.split() == [host.name, host.name]
        assert host.run(["hostname"]).stdout.strip() == host.identity.host_name
        said = host.run(["ssh", "-o", "BatchMode=yes", other.address, "hostname; cat ~/dspark/own; which docker"])
        assert said.stdout.split() == [other.identity.host_name, other.name, "/usr/local/sbin/docker"]
        assert host.run(["ssh", "-o", "BatchMode=yes", other.identity.host_name, "true"]).returncode == 0
        assert not Path(HOME, "dspark/own").exists()
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        assert bed.head.run(["cat", path]).stdout != bed.worker.run(["cat", path]).stdout
    pids = {process.pid for process in bed.head.processes()}
    assert pids
    assert not pids & {process.pid for process in bed.worker.processes()}
    assert "10.77.0." not in subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout


def test_the_machine_looks_like_a_spark(bed: PairBed) -> None:
    head = bed.head
    query = ["nvidia-smi", "--query-gpu=name,temperature.gpu,clocks.sm", "--format=csv,noheader,nounits"]
    assert head.run(query).stdout == "NVIDIA GB10, 47, 2418\n"
    head.set_gpu({"temperature.gpu": 91})
    assert head.run(query).stdout == "NVIDIA GB10, 91, 2418\n"
    assert "rocep1s0f1 port 1 ==> enp1s0f1np1 (Up)" in head.run(["ibdev2netdev"]).stdout
    assert head.run(["cat", "/sys/class/infiniband/rocep1s0f1/ports/1/gid_attrs/types/3"]).stdout == "RoCE v2\n"
    assert head.run(["cat", "/sys/class/net/enp1s0f1np1/mtu"]).stdout == "9000\n"
    assert "Spark" in head.run(["cat", "/sys/class/dmi/id/product_name"]).stdout
    head.set_units({"earlyoom.service": "active"})
    assert head.run(["systemctl", "is-active", "earlyoom"]).stdout == "active\n"
    assert head.run(["systemctl", "is-active", "dspark"], check=False).returncode == 3
    head.set_memory_available(50 * 2**30)
    assert f"MemAvailable:   {50 * 2**20:>8} kB" in head.run(["cat", "/proc/meminfo"]).stdout
    ask = [sys.executable, "-W", "error", "-c", "import psutil; print(psutil.virtual_memory().available)"]
    assert int(head.run(ask).stdout) == 50 * 2**30


def test_without_a_cable_or_sshd_the_worker_is_not_reached(bed: PairBed) -> None:
    look = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", bed.worker.address, "true"]
    bed.worker.stop_sshd()
    assert bed.head.run(look, check=False).returncode == 255
    bed.worker.start_sshd()
    assert bed.head.run(look).returncode == 0
    session = bed.head.popen(["ssh", bed.worker.address, "echo there; sleep 60"], stdout=subprocess.PIPE)
    assert session.stdout is not None
    assert session.stdout.readline() == b"there\n"
    bed.worker.drop_ssh()
    assert session.wait(10) == 255
    session.stdout.close()
    assert bed.head.run(look).returncode == 0
    bed.link_down()
    assert "(Down)\nrocep1s0f1 port 1 ==> enp1s0f1np1 (Down)" in bed.head.run(["ibdev2netdev"]).stdout
    assert bed.head.run(look, check=False).returncode == 255
    bed.link_up()
    assert bed.head.run(look).returncode == 0


def test_a_command_is_the_process_that_a_test_holds(bed: PairBed) -> None:
    sleeper = bed.head.popen(["sleep", "60"])
    wait_until(lambda: ("sleep", "60") in {each.arguments for each in bed.head.processes()}, "it does not run there")
    sleeper.send_signal(signal.SIGTERM)
    assert sleeper.wait(5) == -signal.SIGTERM
    assert bed.head.run(["sh", "-c", "cat; exit 7"], stdin="said", check=False).returncode == 7


def test_the_harness_runs_on_the_head_with_its_state_there(bed: PairBed) -> None:
    assert bed.harness("--version").code == 0
    done = bed.harness("plan", "no-such-sweep.yaml")
    assert done.code == 2
    started = bed.start_harness("simulate", "--port", "8000")
    started.wait_for_text("Ctrl-C")
    assert bed.head.run(["curl", "-fsS", "http://127.0.0.1:8000/v1/models"]).returncode == 0
    assert bed.worker.run(["curl", "-s", "http://127.0.0.1:8000/v1/models"], check=False).returncode == 7
    started.send(signal.SIGKILL)
    assert started.process.wait(5) == -signal.SIGKILL


def test_nothing_outlives_the_test_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.integration.pair.bed import new_settings, opened_bed\n"
        "with opened_bed(new_settings(Path(sys.argv[1]))) as bed:\n"
        "    bed.head.popen(['sleep', '600'])\n"
        "    bed.head.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 &'])\n"
        "    print(bed.head.root, *(each.pid for host in bed.hosts for each in host.processes()), flush=True)\n"
        "    if sys.argv[2] == 'hang':\n"
        "        time.sleep(600)\n"
    )

    def start(name: str, how: str) -> subprocess.Popen[str]:
        (tmp_path / name).mkdir()
        argv = [sys.executable, str(program), str(tmp_path / name), how]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path)}
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)

    def said(process: subprocess.Popen[str]) -> tuple[Path, list[str]]:
        assert process.stdout is not None
        root, *pids = process.stdout.readline().split()
        assert len(pids) >= 3
        return Path(root), pids

    killed = start("killed", "hang")
    left, pids = said(killed)
    killed.kill()
    killed.communicate()
    wait_until(lambda: not any(Path("/proc", pid).exists() for pid in pids), "a process is left")
    assert left.exists()
    orderly = start("orderly", "end")
    root, pids = said(orderly)
    orderly.communicate()
    assert orderly.returncode == 0
    assert not left.exists()
    assert not root.exists()
    assert not any(Path("/proc", pid).exists() for pid in pids)


# The pair.


def test_the_pair_boots_through_a_checkout_and_is_stopped(bed: PairBed, checkout: Checkout) -> None:
    before = checkout.worker_files()
    checkout.set_variables({"MTP_NUM_TOKENS": "7", "DRAFT_SAMPLE_METHOD": "greedy"})
    checkout.run("validate")
    assert "Minimal chat request succeeded." in checkout.run("start").stdout
    assert bed.k() == 7
    head, worker = bed.head.rank(), bed.worker.rank()
    for rank, number, gid in ((head, "0", "3"), (worker, "1", "6")):
        assert rank.status == "running"
        wanted = {"MTP_NUM_TOKENS": "7", "DRAFT_SAMPLE_METHOD": "greedy", "NODE_RANK": number, "NCCL_IB_GID_INDEX": gid}
        assert wanted.items() <= rank.environment.items()
    assert worker.labels["com.docker.compose.project.working_dir"] == checkout.worker_folder
    after = checkout.worker_files()
    assert after[ENV_FILE] == bed.head.path(checkout.env_file).read_bytes() != before[ENV_FILE]
    again = checkout.run("start", check=False)
    assert again.returncode == 3
    assert "treat exit 3 as already-up" in again.stderr
    assert "deepseek-v4-flash-0731" in checkout.run("status").stdout
    assert "6/6" in checkout.run("smoke").stdout
    assert "DeepSeek V4 Flash DSpark stopped" in checkout.run("stop").stdout
    assert statuses(bed) == [[], []]
    for host in bed.hosts:
        assert all(process.arguments[0].startswith("sshd") for process in host.processes())
    assert checkout.worker_files() == after


def test_the_engine_is_quick_and_measures_as_the_harness_wants(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    body = '{"model": "deepseek-v4-flash-0731", "prompt": "%s", "max_tokens": 256, "ignore_eos": true}' % ("x " * 1024)
    post = ["curl", "-fsS", "http://127.0.0.1:8888/v1/completions", "-d", body]
    began_s = time.monotonic()
    assert '"completion_tokens":256' in bed.head.run(post).stdout
    assert time.monotonic() - began_s < 1.0


def test_the_september_generation_has_its_own_rules(bed: PairBed) -> None:
    checkout = bed.install_standin_checkout("september")
    assert checkout.run("status", check=False).returncode == 1
    checkout.set_variables({"MTP_NUM_TOKENS": "5"})
    refused = checkout.run("start", check=False)
    assert refused.returncode == 2
    assert "Vision-Exp requires MTP_NUM_TOKENS >= 5 and divisible by 3" in refused.stderr
    checkout.set_variables({"DSPARK_ENABLE_DSPARK_BLOCK_K": "1"})
    checkout.run("start")
    assert bed.k() == 5
    assert bed.worker.rank().environment["DSPARK_ENABLE_DSPARK_SWA_PREFIX"] == "1"
    bed.head.run(["docker", "rm", "-f", bed.head.rank().name])
    stale = checkout.run("start", check=False)
    assert stale.returncode == 3
    assert "worker" in stale.stderr
    assert "BLOCK_K" not in bed.install_standin_checkout("august").head.read(
        "~/dspark/start-deepseek-v4-flash-dspark.sh"
    )


def test_a_compose_file_without_the_flag_gives_an_arm_without_speculation(bed: PairBed, checkout: Checkout) -> None:
    compose = bed.head.read(f"{checkout.head_folder}/{COMPOSE_FILE}")
    shorter = "".join(line for line in compose.splitlines(keepends=True) if "--speculative-config" not in line)
    bed.head.write("~/dspark/docker-compose.no-spec.yml", shorter)
    checkout.run("start", environment={"COMPOSE_FILE": f"{checkout.head_folder}/docker-compose.no-spec.yml"})
    assert bed.k() == 0
    assert "spec_decode" not in bed.metrics()
    assert checkout.worker_files()[COMPOSE_FILE].decode() == shorter


def test_keys_guard_the_api_and_stay_out_of_the_log(bed: PairBed, checkout: Checkout) -> None:
    checkout.set_variables({"DSPARK_API_KEYS": "first-key second-key"})
    checkout.run("start")
    look = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:8888/v1/models"]
    assert bed.head.run(look).stdout == "401"
    for key in ("first-key", "second-key"):
        assert bed.head.run([*look, "-H", f"Authorization: Bearer {key}"]).stdout == "200"
    log = bed.head.run(["docker", "logs", bed.head.rank().name])
    assert "redacted:2" in log.stdout
    assert "first-key" not in log.stdout + log.stderr


def ids(bed: PairBed) -> list[str]:
    return bed.head.run(["docker", "ps", "-aq", "--no-trunc"]).stdout.split()


def test_two_projects_live_side_by_side(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    bed.head.write(
        "/tmp/trial.env", bed.head.read(checkout.env_file) + "VLLM_PORT=18888\nMASTER_PORT=25001\nMTP_NUM_TOKENS=3\n"
    )
    trial = {"ENV_FILE": "/tmp/trial.env", "PROJECT_NAME": "trial"}
    checkout.run("start", environment=trial)
    assert (bed.k(), bed.k(port=18888)) == (5, 3)
    assert ids(bed) == [bed.head.rank("trial").container_id, bed.head.rank("deepseek-v4-flash").container_id]
    checkout.run("stop", environment=trial)
    assert [host.rank().project for host in bed.hosts] == ["deepseek-v4-flash", "deepseek-v4-flash"]
    assert ids(bed) == [bed.head.rank().container_id]
    assert bed.head.docker_calls()[-1] == ["ps", "-aq", "--no-trunc"]
    assert bed.k() == 5


# Faults.


def test_faults_of_docker(bed: PairBed, checkout: Checkout) -> None:
    bed.worker.docker_fault("image_missing")
    assert "Missing worker Docker image" in checkout.run("start", check=False).stderr
    bed.worker.clear_faults()
    name = [
        "docker",
        "image",
        "inspect",
        "ghcr.io/anemll/dspark-vllm-gx10:0.1.1",
        "--format",
        "{{index .RepoDigests 0}} {{.Id}}",
    ]
    assert bed.head.run(name).stdout == bed.worker.run(name).stdout
    bed.worker.docker_fault("digest_differs")
    assert bed.head.run(name).stdout != bed.worker.run(name).stdout
    bed.worker.clear_faults()
    bed.head.docker_fault("up_fails", times=1)
    failed = checkout.run("start", check=False)
    assert failed.returncode == 1
    assert "could not select device driver" in failed.stderr
    assert statuses(bed) == [[], ["running"]]
    assert checkout.run("start", check=False).returncode == 1  # a stale worker
    bed.worker.docker_fault("daemon_down")
    assert "DeepSeek V4 Flash DSpark stopped" in checkout.run("stop").stdout  # it is not
    assert statuses(bed) == [[], ["running"]]
    bed.worker.clear_faults()
    bed.worker.docker_fault("stop_fails")
    bed.worker.docker_fault("rm_fails")
    assert "DeepSeek V4 Flash DSpark stopped" in checkout.run("stop").stdout
    assert statuses(bed) == [[], ["running"]]
    bed.worker.clear_faults()
    checkout.run("stop")
    assert statuses(bed) == [[], []]
    with pytest.raises(ValueError, match="unknown fault"):
        bed.head.docker_fault("no_such_fault")


def test_a_rank_that_dies_in_boot_comes_again_and_again(bed: PairBed, checkout: Checkout) -> None:
    bed.head.docker_fault("head_dies_in_boot")
    failed = checkout.run("start", environment=QUICK_TO_GIVE_UP, check=False)
    assert failed.returncode == 1
    assert "Timed out waiting for DSpark API. Recent head logs:" in failed.stderr
    assert "out of memory" in failed.stderr
    wait_until(lambda: all(host.rank().restart_count > 0 for host in bed.hosts), "not started again")
    checkout.run("stop")
    bed.head.clear_faults()
    bed.worker.docker_fault("worker_dies")
    checkout.set_variables({"DSPARK_RESTART_POLICY": "no"})
    assert checkout.run("start", environment=QUICK_TO_GIVE_UP, check=False).returncode == 1
    assert bed.head.rank().status == "running"
    assert (bed.worker.rank().status, bed.worker.rank().exit_code) == ("exited", 1)
    assert "Exited (1)" in bed.worker.run(["docker", "ps", "-a"]).stdout


def test_a_head_that_is_never_ready_is_left_running(bed: PairBed, checkout: Checkout, tmp_path: Path) -> None:
    bed.head.docker_fault("never_ready")
    assert checkout.run("start", environment=QUICK_TO_GIVE_UP, check=False).returncode == 1
    assert statuses(bed) == [["running"], ["running"]]
    assert checkout.run("start", check=False).returncode == 3
    bed.head.clear_faults()
    checkout.run("stop")
    bed.head.docker_fault("never_ready")  # or the start could be over before it is interrupted
    said = tmp_path / "said"
    with said.open("wb") as out:
        waiting = bed.head.popen([f"{checkout.head_folder}/start-deepseek-v4-flash-dspark.sh"], stdout=out)
    wait_until(lambda: "Waiting for DSpark" in said.read_text(), "it never waited")
    os.killpg(waiting.pid, signal.SIGINT)
    assert waiting.wait(60) == 130
    assert statuses(bed) == [["running"], ["running"]]


def test_chats_that_fail_end_the_start_with_the_code_of_curl(bed: PairBed, checkout: Checkout) -> None:
    bed.head.docker_fault("chat_500")
    failed = checkout.run("start", check=False)
    assert failed.returncode == 22
    assert "Startup failed. Recent head logs:" in failed.stderr
    bed.head.clear_faults()
    assert "6/6" in checkout.run("smoke").stdout


def test_a_rank_ends_with_the_other_one(bed: PairBed, checkout: Checkout) -> None:
    checkout.set_variables({"DSPARK_RESTART_POLICY": "no"})
    checkout.run("start")
    bed.worker.kill_rank()
    wait_until(lambda: statuses(bed) == [["exited"], ["exited"]], "a rank lives on")
    assert (bed.worker.rank().exit_code, bed.head.rank().exit_code) == (137, 1)
    assert "worker rank lost" in bed.head.run(["docker", "logs", bed.head.rank().name]).stdout
    checkout.run("stop")
    checkout.run("start")
    bed.head.kill_rank()
    wait_until(lambda: statuses(bed) == [["exited"], ["exited"]], "a rank lives on")
    assert bed.worker.rank().exit_code == 1


def test_a_reboot_brings_back_what_the_policy_says(bed: PairBed, checkout: Checkout) -> None:
    checkout.run("start")
    boot_id = bed.head.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    assert uptime_s(bed.head) > 3600
    bed.worker.run(["docker", "stop", "-t", "1", bed.worker.rank().name])
    for host in bed.hosts:
        host.reboot(docker=False)
        assert host.run(["docker", "ps"], check=False).returncode == 1
        host.start_docker()
    assert bed.head.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != boot_id
    assert uptime_s(bed.head) < 60
    assert statuses(bed) == [["running"], ["exited"]]  # nobody starts what was stopped by hand
    bed.worker.run(["docker", "start", bed.worker.rank().name])
    wait_until(lambda: "drafts" in bed.head.run(["curl", "-s", "127.0.0.1:8888/metrics"], check=False).stdout, "no API")
    assert bed.head.run(["docker", "update", "--restart=no", bed.head.rank().name]).returncode == 0
    bed.head.reboot()
    assert bed.head.rank().status == "exited"
    assert checkout.run("stop").returncode == 0

"""Work on a cluster: the same answers as on one machine, also where a worker is killed."""

import json
import os
import signal
import socket
from contextlib import suppress

import numpy as np
import pytest

from attentif.api import load, train
from attentif.cluster import open_cluster
from attentif.config import Layer
from attentif.errors import DataError, UsageError
from attentif.lab.compare.board import SilentBoard
from attentif.lab.compare.worker_pool import ClusterPool, WorkerJob
from attentif.lab.tune import search
from attentif.remote import RemoteRun, RemoteSplit, answer_ahead, embed_on, score_on
from attentif.training.progress import Silent

pytestmark = pytest.mark.system
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    rows = [{"text": f"film {'bon' if n % 2 else 'mauvais'} {n % 7}", "label": "+" if n % 2 else "-"} for n in range(60)]
    settings = {"epochs": 0, "min_steps": 0, "steps": 3, "baselines": False}
    return train("reviews", data=rows, out=tmp_path_factory.mktemp("cluster") / "run", train=settings, model={"layers": 1, "width": 16})


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed")
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL") as workers,
        open_cluster(workers.scheduler_address) as opened,
    ):
        yield opened


def test_a_killed_worker_costs_no_row_and_doubles_none(run, cluster, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("text\n" + "".join(f"film {n} {'bon' if n % 3 else 'nul'}\n" for n in range(6000)))
    run.predict_file(file, tmp_path / "alone.csv")
    processes = list(cluster.client.run(os.getpid).values())
    seen = []

    def progress(done, total):
        if done and not any(seen):  # its work is under way
            os.kill(processes[0], signal.SIGKILL)
        seen.append(done)

    run.predict_file(file, tmp_path / "together.csv", ahead=answer_ahead(cluster, RemoteRun.of(run.path)), progress=progress)
    alone, together = ((tmp_path / name).read_text().splitlines() for name in ("alone.csv", "together.csv"))
    assert len(together) == 6001
    for one, other in zip(alone, together, strict=True):
        assert one.split(",")[:2] == other.split(",")[:2]


def test_a_row_that_cannot_be_answered_is_named_by_its_line(run, cluster, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("text\nbon\n \nnul\n")
    with pytest.raises(DataError) as error:
        run.predict_file(file, tmp_path / "out.csv", ahead=answer_ahead(cluster, RemoteRun.of(run.path)))
    assert (error.value.code, error.value.line) == ("bad-row", 3)


def test_vectors_of_a_cluster_are_those_of_one_machine(run, cluster):
    texts = [f"film {n}" for n in range(50)]
    remote = RemoteRun.of(run.path, pooling=None, normalise=True)
    np.testing.assert_allclose(embed_on(cluster, remote, texts), load(run.path).embed(texts), atol=1e-5)


def test_jobs_of_a_comparison_report_what_went_wrong(cluster, tmp_path):
    job = WorkerJob("one", {"kind": "decode", "folder": str(tmp_path / "none"), "threads": 1, "plugins": []})
    (ended,) = ClusterPool(cluster, SilentBoard()).run([job])
    assert ended.job == job
    assert str(tmp_path / "none") in ended.error


def test_a_local_cluster_is_quiet_and_takes_ports_that_are_free(caplog):
    """Of dask's own choice, 8787, it warns where another program has it."""
    with socket.socket() as taken:
        with suppress(OSError):  # another program has it
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        with open_cluster("local") as opened:
            assert opened.wait_for(opened.submit(len, "ab")).get() == 2
    assert [record.message for record in caplog.records if record.name.startswith("distributed")] == []


def test_an_address_that_is_none_is_refused():
    with pytest.raises(UsageError, match="--cluster"), open_cluster("nowhere"):
        pass


def test_settings_are_tried_on_the_workers(cluster, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("text,label\n" + "".join(f"film {'bon' if n % 2 else 'nul'} {n % 7},{n % 2}\n" for n in range(60)))
    table = {"data": {"train": str(file)}, "model": {"layers": 1, "width": 16}}
    table["train"] = {"epochs": 0, "min_steps": 0, "steps": 3, "baselines": False}
    asked = {"trials": 2, "choices": {"train.lr": [1e-3, 1e-2, 3e-3]}, "watch": Silent()}
    layers = [Layer({key: value}, "test") for key, value in table.items()]
    alone = search("reviews", layers, out=tmp_path / "alone", **asked)
    together = search("reviews", layers, out=tmp_path / "together", cluster=cluster.client.scheduler.address, **asked)
    for one, other in zip(together.trials, alone.trials, strict=True):
        assert one.valid == pytest.approx(other.valid, rel=1e-5)  # workers have a thread each: sums are rounded otherwise
    assert together.best == alone.best


def test_scores_of_a_cluster_are_those_of_one_machine(run, cluster, tmp_path):
    file = tmp_path / "rows.csv"
    rows = [f"film {n} {'bon' if n % 3 else 'mauvais'},{'+' if n % 2 else '-'}" for n in range(3000)]
    rows[::200] = [f"film {'bon' if n % 2 else 'mauvais'} {n % 7},{'+' if n % 2 else '-'}" for n in range(15)]  # trained on
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    loaded, data = load(run.path, threads=1), {"train": str(file)}
    alone, seen = loaded.evaluate(data), []
    split = RemoteSplit(RemoteRun.of(run.path), json.dumps(data), "test")
    together = loaded.evaluate(data, remote_map=score_on(cluster, split), progress=lambda done, total: seen.append((done, total)))
    assert together == alone
    assert together.details["trained_on"] > 0  # and the others were scored by the workers too
    assert seen[-1][0] == seen[-1][1] > 1


def test_scores_that_are_not_shared_out_are_refused(run, cluster, monkeypatch):
    loaded = load(run.path)
    monkeypatch.setattr(type(loaded.task), "scores_by_batch", False)
    with pytest.raises(UsageError, match="--cluster"):
        loaded.evaluate(remote_map=score_on(cluster, RemoteSplit(RemoteRun.of(run.path), "null", "test")))

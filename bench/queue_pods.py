#!/usr/bin/env python3
"""Pods of several queues for `berth simulate trace`, and policies to compare.

usage: queue_pods.py --arrivals philly_vc_arrivals.csv --durations philly_duration_gpus.csv
                     --gpus 256 --jobs 4000 --seed 1 --out DIR

Each virtual cluster of the arrivals is a queue. A job has the GPUs of its row and the duration of a
random row of the durations with as many GPUs; beyond 8 GPUs it is a gang of pods of 8. Jobs come at
times that are drawn uniformly, so that `--load` sets the pressure, and the queues in proportion to
their rows. The quota of a queue is its part of the GPU hours of the whole, in GPUs of the cluster.

Writes DIR/pods.json, and the policies DIR/caps.yaml (quotas are caps), DIR/lends.yaml (the same quotas,
what is lent is not taken back), DIR/reclaims.yaml (it is) and DIR/none.yaml (no quotas).
"""
import argparse
import collections
import csv
import json
import pathlib
import random

PER_NODE = 8
SPAN_SECONDS = 30 * 24 * 3600


def timestamp(seconds):
    day, rest = divmod(int(seconds), 24 * 3600)
    return f"2026-01-{day + 1:02}T{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}Z"


def pod(name, queue, gpus, created, seconds, gang, size):
    labels = {"berth.dev/queue": queue}
    annotations = {"berth.dev/expected-duration": f"{seconds}s"}
    if size > 1:
        labels["berth.dev/gang"] = gang
        annotations["berth.dev/gang-size"] = str(size)
    requests = {"nvidia.com/gpu": str(gpus), "cpu": str(gpus), "memory": "1Gi"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels,
                     "annotations": annotations, "creationTimestamp": timestamp(created)},
        "spec": {"schedulerName": "default-scheduler",
                 "containers": [{"name": "main",
                                 "resources": {"requests": requests, "limits": requests}}]},
        "status": {"phase": "Pending"},
    }


def draw_jobs(args, rng):
    with open(args.arrivals) as file:
        rows = [(row["vc"], int(row["gpus"])) for row in csv.DictReader(file)]
    durations = collections.defaultdict(list)
    with open(args.durations) as file:
        for row in csv.DictReader(file):
            durations[int(row["gpus"])].append(int(row["duration_s"]))
    rows = [row for row in rows if row[1] in durations and row[1] <= 64]
    common = {vc for vc, count in collections.Counter(vc for vc, _ in rows).items() if count >= 100}
    rows = [row for row in rows if row[0] in common]
    return [(vc, gpus, max(60, rng.choice(durations[gpus])), rng.uniform(0, SPAN_SECONDS))
            for vc, gpus in rng.sample(rows, args.jobs)]


def write_policies(out, quotas):
    head = "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n"

    def write(name, borrowing, keys):
        lines = [f"borrowing: {borrowing}", "queues:"]
        for vc, quota in sorted(quotas.items()):
            lines.append(f"- {{name: vc-{vc}, namespaces: ['*']{keys(quota)}}}")
        (out / f"{name}.yaml").write_text(head + "\n".join(lines) + "\n")

    def quota_of(quota):
        return f", quota: {{nvidia.com/gpu: {quota}}}"

    write("caps", "off", quota_of)
    write("lends", "on", lambda quota: quota_of(quota) + ", preemption: {reclaim: never}")
    write("reclaims", "on", quota_of)
    write("none", "off", lambda quota: "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arrivals", required=True)
    parser.add_argument("--durations", required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = draw_jobs(args, random.Random(args.seed))
    hours = collections.Counter()
    largest = collections.Counter()
    pods = []
    for i, (vc, gpus, seconds, created) in enumerate(sorted(jobs, key=lambda job: job[3])):
        hours[vc] += gpus * seconds
        largest[vc] = max(largest[vc], gpus)
        members = [gpus] if gpus <= PER_NODE else [PER_NODE] * (gpus // PER_NODE)
        if gpus > PER_NODE and gpus % PER_NODE:
            members.append(gpus % PER_NODE)
        for member, amount in enumerate(members):
            pods.append(pod(f"j{i}-{member}", f"vc-{vc}", amount, created, seconds, f"j{i}",
                            len(members)))
    total = sum(hours.values())
    # At least the largest job of the queue: under caps it could never run otherwise.
    quotas = {vc: max(largest[vc], round(args.gpus * amount / total)) for vc, amount in hours.items()}
    (args.out / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    write_policies(args.out, quotas)


if __name__ == "__main__":
    main()

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startup measures how long Berth needs from exec until it is ready, and the
// memory that it then holds, in a cluster of 5,000 nodes and 140,000 bound
// pods: from a file, and from a real API server.
func startup(ctx context.Context, l *lab) (*report, error) {
	nodes, pods := full(l, 5000, 1000), full(l, 140_000, 28_000)
	r := l.newReport("startup", "source", "nodes", "pods", "run", "exec to ready s", "CPU s", "RSS MiB", "peak MiB", "RSS after 60 s MiB")
	r.note("on each node 8 pods of one GPU and the rest without; every tenth node's pods are one gang; ready: the first 200 of /readyz, polled every 5 ms")
	if err := l.startupFromFile(r, nodes, pods); err != nil {
		return r, err
	}
	c, err := l.newCluster()
	if err != nil {
		return r, err
	}
	defer c.close()
	if err := c.growTo(ctx, nodes); err != nil {
		return r, err
	}
	start := time.Now()
	if err := c.create(ctx, residents(nodes, pods)); err != nil {
		return r, err
	}
	fmt.Fprintf(os.Stderr, "%d pods in %v\n", pods, time.Since(start).Round(time.Second))
	for run := range full(l, 3, 1) {
		if err := l.startupOnce(r, "API server", nodes, pods, run, "--kubeconfig", c.kubeconfig); err != nil {
			return r, err
		}
	}
	return r, nil
}

// residents are the pods of a busy cluster, all bound.
func residents(nodes, count int) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		node, place := i%nodes, i/nodes
		options := []podOption{onNode(nodeName(node))}
		gpus := 0
		if place < gpusPerNode {
			gpus = 1
			if node%10 == 0 {
				options = append(options, inGang(fmt.Sprintf("gang-%d", node), gpusPerNode))
			}
		}
		pods[i] = newPod(fmt.Sprintf("resident-%d", i), gpus, options...)
	}
	return pods
}

func (l *lab) startupFromFile(r *report, nodes, pods int) error {
	snapshot, path, err := l.newSnapshot("startup-cluster.json")
	if err != nil {
		return err
	}
	for i := range nodes {
		snapshot.add(newNode(i))
	}
	hour := time.Now().Add(-time.Hour)
	for i, pod := range residents(nodes, pods) {
		recorded(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), hour)(pod)
		snapshot.add(pod)
	}
	if err := snapshot.close(); err != nil {
		return err
	}
	defer os.Remove(path)
	return l.startupOnce(r, "snapshot file", nodes, pods, 0, "--snapshot", path)
}

func (l *lab) startupOnce(r *report, name string, nodes, pods, run int, source ...string) error {
	berth, err := l.newBerth(source...)
	if err != nil {
		return err
	}
	defer berth.stop()
	if err := berth.start(); err != nil {
		return err
	}
	cpu := berth.cpuSeconds()
	rss, peak, err := berth.memory()
	if err != nil {
		return err
	}
	time.Sleep(full(l, time.Minute, time.Second))
	later, _, err := berth.memory()
	r.add(name, nodes, pods, run, berth.after.Seconds(), cpu, rss, peak, later)
	return err
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// variant is one way to schedule the same pods.
type variant struct {
	name     string
	sampling int
	gated    bool
	extender func(*cluster) (*extender, error) // nil: none
}

func berthExtender(c *cluster) (*extender, error) {
	return c.lab.newBerth("--kubeconfig", c.kubeconfig)
}

func goExtender(answer string) func(*cluster) (*extender, error) {
	return func(c *cluster) (*extender, error) { return c.lab.newReference(answer, c.kubeconfig) }
}

var variants = []variant{
	{name: "no extender", sampling: defaultSampling},
	{name: "no extender", sampling: 100},
	{name: "go, all + prioritize", sampling: 100, extender: goExtender("all")},
	{name: "go, one node", sampling: 100, extender: goExtender("one")},
	{name: "berth, ungated", sampling: 100, extender: berthExtender},
	{name: "berth, gated", sampling: 100, extender: berthExtender, gated: true},
	{name: "berth, gated", sampling: defaultSampling, extender: berthExtender, gated: true},
}

// rate is what one run of a variant gave.
type rate struct {
	pods float64 // bound per second
	plan float64 // seconds from exec of a gated Berth to the first ungating
	// Milliseconds of CPU per pod, from the moment at which everything was ready.
	extender, scheduler, apiserver, etcd float64
	allocated                            float64 // by kube-apiserver, KiB per pod
	tried                                float64 // attempts to change a pod in etcd, per pod
}

// throughput measures pods per second through the stock scheduler.
func throughput(ctx context.Context, l *lab) (*report, error) {
	r := l.newReport("throughput", "nodes", "variant", "sampling", "pods", "runs", "pods/s", "lowest", "highest",
		"to none, same sampling 100", "to none, default sampling", "extender ms/pod", "scheduler ms/pod", "apiserver ms/pod", "etcd ms/pod",
		"apiserver KiB/pod", "pod writes tried/pod")
	r.note("%s", rates)
	r.note("one-GPU pods, created beforehand: ungated ones run from the first binding, gated ones from the first ungating (nominations and ungatings included), to the last binding seen by a watch; median of the runs, order reversed in every other round")
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, nodes := range l.sizes(1000, 5000) {
		if err := c.growTo(ctx, nodes); err != nil {
			return r, err
		}
		rates := make([][]rate, len(variants))
		for round := range full(l, 3, 1) {
			order := make([]int, len(variants))
			for i := range order {
				order[i] = i
			}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				got, err := c.throughputOf(ctx, variants[i], full(l, 1500, 500))
				if err != nil {
					return r, fmt.Errorf("%d nodes, %s: %w", nodes, variants[i].name, err)
				}
				fmt.Fprintf(os.Stderr, "%d nodes, %s, sampling %s: %.1f pods/s, first ungated %.2f s after exec\n",
					nodes, variants[i].name, samplingName(variants[i].sampling), got.pods, got.plan)
				rates[i] = append(rates[i], got)
			}
		}
		r.addRates(nodes, full(l, 1500, 500), rates)
	}
	return r, nil
}

func samplingName(percentage int) string {
	if percentage == defaultSampling {
		return "default"
	}
	return fmt.Sprintf("%d %%", percentage)
}

func (r *report) addRates(nodes, pods int, rates [][]rate) {
	of := func(i int, field func(rate) float64) (all []float64) {
		for _, got := range rates[i] {
			all = append(all, field(got))
		}
		return all
	}
	podsPerSecond := func(got rate) float64 { return got.pods }
	sampled, whole := median(of(0, podsPerSecond)), median(of(1, podsPerSecond))
	for i, v := range variants {
		all := of(i, podsPerSecond)
		m := median(all)
		r.add(nodes, v.name, samplingName(v.sampling), pods, len(all), m, slices.Min(all), slices.Max(all), m/whole, m/sampled,
			median(of(i, func(got rate) float64 { return got.extender })),
			median(of(i, func(got rate) float64 { return got.scheduler })),
			median(of(i, func(got rate) float64 { return got.apiserver })),
			median(of(i, func(got rate) float64 { return got.etcd })),
			median(of(i, func(got rate) float64 { return got.allocated })),
			median(of(i, func(got rate) float64 { return got.tried })))
	}
}

// throughputOf runs one variant on an empty cluster and leaves its pods for the next to delete.
func (c *cluster) throughputOf(ctx context.Context, v variant, count int) (got rate, err error) {
	if err := c.clear(ctx); err != nil {
		return got, err
	}
	options := []podOption{}
	if v.gated {
		options = append(options, gated)
	}
	pods := newPods(count, "pod", 1, options...)
	if err := c.create(ctx, pods); err != nil {
		return got, err
	}
	f, err := c.follow(ctx)
	if err != nil {
		return got, err
	}
	defer f.stop()
	time.Sleep(time.Second) // what creation left to do

	var e *extender
	if v.extender != nil {
		if e, err = v.extender(c); err != nil {
			return got, err
		}
	}
	// What releases the pods starts last: Berth, which ungates, or the scheduler.
	var scheduler *process
	startScheduler := func() error {
		scheduler, err = c.startScheduler(e, v.sampling)
		return err
	}
	order := []func() error{e.start, startScheduler}
	if v.gated {
		slices.Reverse(order)
	}
	defer func() {
		scheduler.stop()
		e.stop()
	}()
	for _, start := range order {
		if err := start(); err != nil {
			return got, err
		}
	}
	countersBefore, err := c.counters(ctx)
	if err != nil {
		return got, err
	}
	before := cpuByProgram()
	if err := f.allBound(pods, patience); err != nil {
		return got, err
	}
	got = rateOf(f, e, pods, v)
	after := cpuByProgram()
	counters, err := c.counters(ctx)
	if err != nil {
		return got, err
	}
	got.allocated = (counters[allocated] - countersBefore[allocated]) / 1024 / float64(count)
	got.tried = (counters[podUpdates] - countersBefore[podUpdates]) / float64(count)
	perPod := func(program string) float64 {
		return (after[program] - before[program]) * 1000 / float64(count)
	}
	if e != nil {
		got.extender = perPod(filepath.Base(e.cmd.Path))
	}
	got.scheduler, got.apiserver, got.etcd = perPod("kube-scheduler"), perPod("kube-apiserver"), perPod("etcd")
	return got, nil
}

func rateOf(f *follower, e *extender, pods []*corev1.Pod, v variant) (got rate) {
	ungated, bound := f.times(pods)
	from, n := earliest(bound), len(bound)-1
	if v.gated {
		from, n = earliest(ungated), len(bound)
		got.plan = from.Sub(e.started).Seconds()
	}
	got.pods = float64(n) / latest(bound).Sub(from).Seconds()
	return got
}

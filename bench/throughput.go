package main

import (
	"context"
	"fmt"
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
	cpu  float64 // milliseconds of the extender per pod
}

// throughput measures pods per second through the stock scheduler.
func throughput(ctx context.Context, l *lab) (*report, error) {
	r := l.newReport("throughput", "nodes", "variant", "sampling", "pods", "runs", "pods/s", "lowest", "highest",
		"to none, same sampling 100", "to none, default sampling", "extender CPU ms/pod")
	r.note("%s", rates)
	r.note("one-GPU pods, created beforehand: ungated ones run from the first binding, gated ones from the first ungating (nominations and ungatings included), to the last binding seen by a watch; median of the runs, order reversed in every other round")
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, nodes := range []int{1000, 5000} {
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
				fmt.Printf("  %d nodes, %s, sampling %s: %.1f pods/s, first ungated %.2f s after exec\n",
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
	podsPerSecond := func(i int) (all []float64) {
		for _, got := range rates[i] {
			all = append(all, got.pods)
		}
		return all
	}
	cpu := func(i int) (all []float64) {
		for _, got := range rates[i] {
			all = append(all, got.cpu)
		}
		return all
	}
	sampled, whole := median(podsPerSecond(0)), median(podsPerSecond(1))
	for i, v := range variants {
		all := podsPerSecond(i)
		m := median(all)
		r.add(nodes, v.name, samplingName(v.sampling), pods, len(all), m, slices.Min(all), slices.Max(all),
			m/whole, m/sampled, median(cpu(i)))
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
	if err := f.allBound(pods, patience); err != nil {
		return got, err
	}
	return rateOf(f, e, pods, v), nil
}

func rateOf(f *follower, e *extender, pods []*corev1.Pod, v variant) (got rate) {
	ungated, bound := f.times(pods)
	from, n := earliest(bound), len(bound)-1
	if v.gated {
		from, n = earliest(ungated), len(bound)
		got.plan = from.Sub(e.started).Seconds()
	}
	got.pods = float64(n) / latest(bound).Sub(from).Seconds()
	if e != nil {
		got.cpu = e.cpuSeconds() * 1000 / float64(len(bound))
	}
	return got
}

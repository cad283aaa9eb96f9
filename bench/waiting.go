package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stage is a real cluster with one Berth and one scheduler in it.
type stage struct {
	*cluster
	berth     *extender
	scheduler *process
	follower  *follower
}

// newStage starts Berth, with these flags besides the usual ones, and a scheduler
// that looks at all nodes, as documented. What the watch says of pods goes to
// observers, too.
func (c *cluster) newStage(ctx context.Context, flags []string, observers ...func(*corev1.Pod)) (*stage, error) {
	s := &stage{cluster: c}
	if err := s.start(ctx, flags, observers); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *stage) start(ctx context.Context, flags []string, observers []func(*corev1.Pod)) (err error) {
	if s.berth, err = s.lab.newBerth(append([]string{"--kubeconfig", s.kubeconfig}, flags...)...); err != nil {
		return err
	}
	if err = s.berth.start(); err != nil {
		return err
	}
	if s.scheduler, err = s.startScheduler(s.berth, 100); err != nil {
		return err
	}
	s.follower, err = s.follow(ctx, observers...)
	return err
}

func (s *stage) stop() {
	if s.follower != nil {
		s.follower.stop()
	}
	s.scheduler.stop()
	s.berth.stop()
}

// waiting5000 measures how long a fresh pod takes from its creation to its
// binding while 5,000 workloads of one wait that cannot run, which are all older
// than it.
func waiting5000(ctx context.Context, l *lab) (*report, error) {
	const nodes, waiters = 500, 5000
	r := l.newReport("waiting5000", "waiting", "fresh", "probes", "p50 ms", "p99 ms", "max ms", "berth CPU s", "scheduler CPU s")
	r.note("%s", rates)
	r.note("%d nodes of 8 GPUs with 5 taken on each; the waiting pods ask for 4; one fresh one-GPU pod after another, from its creation to its binding seen by a watch, then deleted", nodes)
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.growTo(ctx, nodes); err != nil {
		return r, err
	}
	for _, waiting := range []string{"none", "gated", "ungated"} {
		for _, fresh := range []string{"gated", "ungated"} {
			if err := c.waiting(ctx, r, waiting, fresh, nodes, waiters); err != nil {
				return r, fmt.Errorf("waiting %s, fresh %s: %w", waiting, fresh, err)
			}
		}
	}
	return r, nil
}

func (c *cluster) waiting(ctx context.Context, r *report, waiting, fresh string, nodes, waiters int) error {
	if err := c.clear(ctx); err != nil {
		return err
	}
	fillers := make([]*corev1.Pod, nodes)
	for i := range fillers {
		fillers[i] = newPod(fmt.Sprintf("filler-%d", i), 5, onNode(nodeName(i)))
	}
	if err := c.create(ctx, fillers); err != nil {
		return err
	}
	s, err := c.newStage(ctx, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	switch waiting {
	case "gated":
		err = c.create(ctx, newPods(waiters, "waiter", 4, gated))
	case "ungated":
		err = c.create(ctx, newPods(waiters, "waiter", 4))
	}
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // the first verdicts, and their Events

	berthBefore, schedulerBefore := s.berth.cpuSeconds(), s.scheduler.cpuSeconds()
	var took []time.Duration
	start := time.Now()
	// A probe can take minutes where everything is retried first: then few must do.
	for i := 0; i < full(c.lab, 100, 20) && (len(took) < 3 || time.Since(start) < time.Minute); i++ {
		pod := newPod(fmt.Sprintf("fresh-%d", i), 1)
		if fresh == "gated" {
			gated(pod)
		}
		start := time.Now()
		pods := []*corev1.Pod{pod}
		if err := c.create(ctx, pods); err != nil {
			return err
		}
		if err := s.follower.allBound(pods, patience); err != nil {
			return err
		}
		_, bound := s.follower.times(pods)
		took = append(took, bound[0].Sub(start))
		if err := c.delete(ctx, pods); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	count := 0
	if waiting != "none" {
		count = waiters
	}
	r.add(fmt.Sprintf("%d %s", count, waiting), fresh, len(took), milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99)),
		milliseconds(quantile(took, 1)), s.berth.cpuSeconds()-berthBefore, s.scheduler.cpuSeconds()-schedulerBefore)
	return nil
}

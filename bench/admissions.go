package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A tree of queues: so many departments, and so many teams in each.
const (
	departments = 5
	teams       = 6
)

func teamName(i int) string { return fmt.Sprintf("team-%02d", i%(departments*teams)) }

// teamPolicy promises each team an equal part of the devices, and lets all of
// them lend and borrow.
func teamPolicy(devices int) string {
	var text strings.Builder
	text.WriteString("apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\nqueues:\n")
	for i := range departments {
		fmt.Fprintf(&text, "- {name: department-%d}\n", i)
	}
	for i := range departments * teams {
		fmt.Fprintf(&text, "- {name: %s, parent: department-%d, namespaces: [\"*\"], quota: {nvidia.com/gpu: %d}}\n",
			teamName(i), i%departments, devices/departments/teams)
	}
	return text.String()
}

// admissions measures jobs per second on free room, from the first creation to the
// last binding: with one queue, and with a tree of queues that keeps account of
// quotas, borrowing and fair shares.
func admissions(ctx context.Context, l *lab) (*report, error) {
	const nodes = 1000
	r := l.newReport("admissions", "jobs", "queues", "run", "jobs/s", "created to bound s", "created in s", "one job p50 s", "one job p99 s",
		"berth ms/job", "scheduler ms/job", "apiserver ms/job", "bench ms/job")
	r.note("%s", rates)
	r.note("%d empty nodes of 8 GPUs; gated jobs within the quota of their queue, created by %d clients as fast as they go while Berth and the scheduler run; from the first creation to the last binding seen by a watch; one job: from the return of its last pod's creation to its last binding", nodes, writers)
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.growTo(ctx, nodes); err != nil {
		return r, err
	}
	count := full(l, 2000, 500)
	for run := range full(l, 3, 1) {
		for _, members := range []int{1, 4} {
			for _, queues := range []int{1, departments * teams} {
				if err := c.admit(ctx, r, run, count/members, members, queues); err != nil {
					return r, fmt.Errorf("gangs of %d, %d queues: %w", members, queues, err)
				}
			}
		}
	}
	return r, nil
}

func (c *cluster) admit(ctx context.Context, r *report, run, count, members, queues int) error {
	if err := c.clear(ctx); err != nil {
		return err
	}
	var flags []string
	if queues > 1 {
		path := filepath.Join(c.lab.out, "admissions-policy.yaml")
		if err := os.WriteFile(path, []byte(teamPolicy(c.nodes*gpusPerNode)), 0o644); err != nil {
			return err
		}
		flags = []string{"--policy", path}
	}
	s, err := c.newStage(ctx, flags)
	if err != nil {
		return err
	}
	defer s.stop()
	jobs := newJobs(count, members, queues)
	before, start := cpuByProgram(), time.Now()
	ready, err := c.createJobs(ctx, jobs)
	if err != nil {
		return err
	}
	created := time.Now()
	done, err := s.jobsBound(jobs)
	if err != nil {
		return err
	}
	after := cpuByProgram()
	perJob := func(program string) float64 { return (after[program] - before[program]) * 1000 / float64(count) }
	took := make([]time.Duration, count)
	for i := range took {
		took[i] = done[i].Sub(ready[i])
	}
	name := podsOf(count, 1)
	if members > 1 {
		name = fmt.Sprintf("%d gangs of %s", count, podsOf(members, 1))
	}
	all := latest(done).Sub(start).Seconds()
	r.add(name, queues, run, float64(count)/all, all, created.Sub(start).Seconds(),
		quantile(took, 0.5).Seconds(), quantile(took, 0.99).Seconds(),
		perJob(filepath.Base(s.berth.cmd.Path)), perJob("kube-scheduler"), perJob("kube-apiserver"), perJob("bench"))
	return s.inQueues(queues, count*members)
}

// newJobs are the gated pods of each job; with one queue they name none.
func newJobs(count, members, queues int) [][]*corev1.Pod {
	jobs := make([][]*corev1.Pod, count)
	for i := range jobs {
		name, options := fmt.Sprintf("job-%d", i), []podOption{gated}
		if members > 1 {
			options = append(options, inGang(name, members))
		}
		if queues > 1 {
			options = append(options, inQueue(teamName(i)))
		}
		jobs[i] = newPods(members, name, 1, options...)
	}
	return jobs
}

// jobsBound waits for all jobs and returns when the last pod of each was bound.
func (s *stage) jobsBound(jobs [][]*corev1.Pod) ([]time.Time, error) {
	done := make([]time.Time, len(jobs))
	for i, pods := range jobs {
		if err := s.follower.allBound(pods, patience); err != nil {
			return nil, err
		}
		_, bound := s.follower.times(pods)
		done[i] = latest(bound)
	}
	return done, nil
}

// createJobs makes the pods of each job one after the other and returns when the
// last one of each was there.
func (c *cluster) createJobs(ctx context.Context, jobs [][]*corev1.Pod) ([]time.Time, error) {
	ready := make([]time.Time, len(jobs))
	return ready, inParallel(writers, len(jobs), func(_, i int) error {
		for _, pod := range jobs[i] {
			if err := c.createOne(ctx, pod); err != nil {
				return err
			}
		}
		ready[i] = time.Now()
		return nil
	})
}

// inQueues checks that all that was bound counts in the queues that it names.
func (s *stage) inQueues(queues, devices int) error {
	metrics, err := s.berth.metrics()
	if err != nil {
		return err
	}
	used := 0.0
	for i := range queues {
		name := "default"
		if queues > 1 {
			name = teamName(i)
		}
		used += metrics[fmt.Sprintf("berth_queue_used{queue=%q,resource=\"nvidia.com/gpu\"}", name)]
	}
	if int(used) != devices {
		return fmt.Errorf("the queues have %v devices in use, not %d", used, devices)
	}
	return nil
}

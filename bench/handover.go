package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// handover measures what a change of leader costs, under load, beside the stock
// scheduler: how long no verb is answered, and how long a pod waits that is
// created at that moment, with a GPU and without.
func handover(ctx context.Context, l *lab) (r *report, err error) {
	r = l.newReport("handover", "what happens", "times", "outage p50 s", "outage max s",
		"GPU pod p50 s", "GPU pod max s", "pod without p50 s", "pod without max s")
	r.note("kube-scheduler v1.36.3: client qps 5000, burst 5000; etcd without fsync; all on the same cores, the load generator and a stand-in for the kubelets included")
	r.note("2 replicas behind a Service, 100 nodes of 8 GPUs, httpTimeout 30s, leases as shipped (15s, 10s, 2s); load: pods of one GPU and pods without, each deleted when it is bound, as fast as they go from 4 clients")
	r.note("outage: from the old leader's last answer to kube-scheduler to the next one's first; pods: from creation to binding, the one with a GPU created at the signal, the one without half a second later")
	b, err := l.startBed()
	if err != nil {
		return r, err
	}
	defer b.Close(false)
	for _, way := range []struct {
		name   string
		signal syscall.Signal
		both   bool
		times  int
	}{
		{"the leader ends (SIGTERM)", syscall.SIGTERM, false, full(l, 20, 3)},
		{"the leader is killed (SIGKILL)", syscall.SIGKILL, false, full(l, 20, 2)},
		{"the leader is stopped (SIGSTOP)", syscall.SIGSTOP, false, full(l, 5, 1)},
		{"both are killed and started again", syscall.SIGKILL, true, full(l, 5, 1)},
	} {
		var outages, withGPU, without []time.Duration
		err := scenarioOf(func(t testing.TB) {
			h := newHandovers(t, b)
			defer h.stop()
			for range way.times {
				if ctx.Err() != nil || t.Failed() {
					return
				}
				one := h.once(way.signal, way.both)
				outages, withGPU, without = append(outages, one[0]), append(withGPU, one[1]), append(without, one[2])
				fmt.Fprintf(os.Stderr, "handover: %s: %v\n", way.name, one)
			}
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return r, fmt.Errorf("%s: %w", way.name, err)
		}
		row := []any{way.name, way.times}
		for _, samples := range [][]time.Duration{outages, withGPU, without} {
			row = append(row, quantile(samples, 0.5).Seconds(), quantile(samples, 1).Seconds())
		}
		r.add(row...)
	}
	return r, nil
}

// startBed starts the end-to-end tests' bed, which runs the program that is measured.
func (l *lab) startBed() (*bed.Bed, error) {
	if err := os.Setenv("BERTH_BIN", l.berth); err != nil {
		return nil, err
	}
	return bed.Start()
}

// handovers is a cluster under load in which one leader follows the other.
type handovers struct {
	s     *bed.Scenario
	done  chan struct{}
	load  sync.WaitGroup
	count int
}

func newHandovers(t testing.TB, b *bed.Bed) *handovers {
	h := &handovers{s: b.Scenario(t, bed.Options{Replicas: 2}), done: make(chan struct{})}
	h.s.Nodes(100).GPUs(gpusPerNode).Create()
	for client := range 4 {
		h.load.Go(func() { h.keepBusy(client) })
	}
	return h
}

func (h *handovers) stop() {
	close(h.done)
	h.load.Wait()
}

// keepBusy creates pods one after the other, every other one with a GPU. Those that
// do not get their node within a moment are left waiting, up to 50 of them.
func (h *handovers) keepBusy(client int) {
	var waiting []*corev1.Pod
	for i := 0; ; i++ {
		select {
		case <-h.done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		var left, bound []*corev1.Pod
		for _, pod := range waiting {
			if h.s.NodeOf(pod) == "" {
				left = append(left, pod)
			} else {
				bound = append(bound, pod)
			}
		}
		h.s.DeleteNow(bound...)
		if waiting = left; len(waiting) < 50 {
			waiting = append(waiting, h.pod(fmt.Sprintf("load-%d-%d", client, i), i%2).Create())
		}
	}
}

func (h *handovers) pod(name string, gpus int) *bed.PodBuilder {
	builder := h.s.Pod(name)
	if gpus > 0 {
		builder.GPUs(gpus)
	}
	return builder
}

// once ends the leader's term and returns the outage of the verbs, the
// wait of a pod with a GPU and that of one without. Afterwards both replicas run.
// With both the other replica gets the signal too, and both are started again.
func (h *handovers) once(signal syscall.Signal, both bool) [3]time.Duration {
	leader, follower := h.s.Leader()
	asked := time.Now()
	bed.Eventually(h.s.T, bed.Timeout, "the leader answers", func() error {
		return bed.Unless(len(h.s.Service.Answers(leader.Name, asked)) > 20, "it does not")
	})
	h.count++
	leader.Signal(signal)
	if both {
		follower.Signal(signal)
	}
	var waits [2]time.Duration
	var pods sync.WaitGroup
	for gpus := range waits {
		pods.Go(func() { waits[gpus] = h.wait(h.pod(fmt.Sprintf("probe-%d-%d", h.count, gpus), gpus), gpus == 0) })
	}
	last := h.restart(leader, follower, signal, both)
	pods.Wait()
	var first time.Time
	bed.Eventually(h.s.T, 3*bed.Timeout, "the next one answers", func() error {
		first = h.s.Service.FirstSuccess(last)
		return bed.Unless(!first.IsZero(), "it does not")
	})
	if signal == syscall.SIGSTOP {
		leader.Signal(syscall.SIGCONT)
		bed.Eventually(h.s.T, bed.Timeout, "the old one follows", func() error {
			return bed.Unless(leader.Ready() && !leader.Leads(), "it does not")
		})
	}
	return [3]time.Duration{first.Sub(last), waits[1], waits[0]}
}

// restart starts again what a signal has ended, and returns when a verb was
// answered last before that. Whoever is started may lead again, but not so soon.
func (h *handovers) restart(leader, follower *bed.Replica, signal syscall.Signal, both bool) (last time.Time) {
	if signal != syscall.SIGSTOP {
		_ = leader.Wait()
	}
	time.Sleep(100 * time.Millisecond) // what was answered has been noted
	last = h.s.Service.LastSuccess(leader.Name)
	if both {
		_ = follower.Wait()
		follower.Start()
	}
	if signal != syscall.SIGSTOP {
		leader.Start()
	}
	return last
}

// wait creates a pod and returns how long after that it was bound. With later it
// first gives kube-scheduler half a second to meet the change.
func (h *handovers) wait(builder *bed.PodBuilder, later bool) time.Duration {
	if later {
		time.Sleep(500 * time.Millisecond)
	}
	created := time.Now()
	pod := builder.Create()
	for h.s.NodeOf(pod) == "" {
		if time.Since(created) > 10*bed.Timeout {
			h.s.T.Fatalf("%s is not bound", pod.Name)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(created)
	h.s.DeleteNow(pod)
	return took
}

// runner lets the end-to-end tests' bed work outside of a test: what it asks of one.
type runner struct {
	testing.TB // the rest, which must not be called

	mu       sync.Mutex
	cleanups []func()
	failed   error
}

// scenarioOf runs what needs a test; a test that fails is an error.
func scenarioOf(do func(testing.TB)) error {
	r, ended := &runner{}, make(chan struct{})
	go func() {
		defer close(ended)
		defer r.cleanUp()
		do(r)
	}()
	<-ended
	return r.failed
}

func (r *runner) cleanUp() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func (r *runner) Helper()                      {}
func (r *runner) Name() string                 { return "handover" }
func (r *runner) Cleanup(do func())            { r.cleanups = append(r.cleanups, do) }
func (r *runner) Logf(f string, args ...any)   { fmt.Fprintf(os.Stderr, f+"\n", args...) }
func (r *runner) Error(args ...any)            { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *runner) Fatal(args ...any)            { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *runner) Fatalf(f string, args ...any) { r.Errorf(f, args...); runtime.Goexit() }

func (r *runner) Errorf(f string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, fmt.Errorf(f, args...))
}

func (r *runner) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed != nil
}

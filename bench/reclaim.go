package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

const reclaimNodes = 500

// lendingPolicy promises all devices to one queue, so that all that the other one
// has is borrowed.
const lendingPolicy = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
queues:
- {name: owner, namespaces: ["*"], quota: {nvidia.com/gpu: %d}}
- {name: guest, namespaces: ["*"]}
`

// claim is work of the owner that arrives at once in a cluster that is full of
// the guest's.
type claim struct {
	jobs, members, gpus int // so many jobs of so many pods of so many GPUs
	lent                int // GPUs of each running pod
}

func (k claim) String() string {
	if k.members == 1 {
		return podsOf(k.jobs, k.gpus)
	}
	return "gang of " + podsOf(k.members, k.gpus)
}

// podsOf is how a table names so many pods of so many GPUs.
func podsOf(pods, gpus int) string { return fmt.Sprintf("%d x %d GPU", pods, gpus) }

func (k claim) total() int { return k.jobs * k.members * k.gpus }

// pods are those of all jobs.
func (k claim) pods() (pods []*corev1.Pod) {
	for job := range k.jobs {
		name := fmt.Sprintf("claim-%d", job)
		options := []podOption{inQueue("owner"), gated}
		if k.members > 1 {
			options = append(options, inGang(name, k.members))
		}
		pods = append(pods, newPods(k.members, name, k.gpus, options...)...)
	}
	return pods
}

// reclaim measures one job that takes back a little among 4,000 running jobs.
func reclaim(ctx context.Context, l *lab) (*report, error) {
	return l.reclaims(ctx, "reclaim", full(l, 5, 1), []claim{
		{jobs: 1, members: 1, gpus: 1, lent: 1},
		{jobs: 1, members: 64, gpus: 1, lent: 1},
		{jobs: 1, members: 8, gpus: gpusPerNode, lent: 1},
	})
}

// reclaim2000 measures how 2,000 of 4,000 borrowed GPUs are taken back.
func reclaim2000(ctx context.Context, l *lab) (*report, error) {
	claims := []claim{
		{jobs: 250, members: 1, gpus: gpusPerNode, lent: 1},
		{jobs: 1, members: 250, gpus: gpusPerNode, lent: 1},
		{jobs: 250, members: 1, gpus: gpusPerNode, lent: gpusPerNode},
		{jobs: 1, members: 250, gpus: gpusPerNode, lent: gpusPerNode},
		{jobs: 1, members: reclaimNodes, gpus: gpusPerNode, lent: gpusPerNode},
	}
	if l.quick {
		claims = claims[2:4] // fewer evictions
	}
	return l.reclaims(ctx, "reclaim2000", full(l, 3, 1), claims)
}

func (l *lab) reclaims(ctx context.Context, name string, runs int, claims []claim) (*report, error) {
	r := l.newReport(name, "arrives", "running", "run", "created to bound s", "created in s", "to first decision s", "to last decision s",
		"to first eviction s", "to last eviction s", "to first bound s", "evicted", "in vain", "eviction calls", "counted by berth", "berth CPU s", "scheduler CPU s", "apiserver CPU s", "bench CPU s")
	r.note("kube-scheduler v1.36.3: client qps 5000, burst 5000; etcd without fsync; all on the same cores, the load generator and a stand-in for the kubelets included; no controllers")
	r.note("%d nodes of 8 GPUs, full of running pods of a queue that has borrowed all of it; the owner's gated pods arrive, created by %d clients; all times from the first creation on, as a watch says, decisions by the decision log", reclaimNodes, writers)
	r.note("evicted pods have a grace period of 30 s, but the stand-in deletes them as soon as a watch shows that they are to end, as if their containers ended at once; bound pods stay Pending")
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.growTo(ctx, reclaimNodes); err != nil {
		return r, err
	}
	for _, claim := range claims {
		for run := range runs {
			if err := c.reclaimOnce(ctx, r, claim, run); err != nil {
				return r, fmt.Errorf("%v from pods of %d GPU: %w", claim, claim.lent, err)
			}
		}
	}
	return r, nil
}

// arrival is a claim that was made, and what was before.
type arrival struct {
	claim
	run            int
	running, pods  []*corev1.Pod
	start, created time.Time
	cpu            map[string]float64 // seconds used by each program from start to the last binding
	calls          float64            // Evictions that the API server had got before
}

func (c *cluster) reclaimOnce(ctx context.Context, r *report, claim claim, run int) (err error) {
	a := arrival{claim: claim, run: run, pods: claim.pods()}
	if a.running, err = c.lend(ctx, claim.lent); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, decisions, err := c.lendingStage(ctx, r.Name)
	if err != nil {
		return err
	}
	defer s.stop()
	time.Sleep(time.Second) // the first passes
	if a.calls, err = c.evictionCalls(ctx); err != nil {
		return err
	}

	before := cpuByProgram()
	a.start = time.Now()
	if err := c.create(ctx, a.pods); err != nil {
		return err
	}
	a.created = time.Now()
	if err := s.follower.allBound(a.pods, patience); err != nil {
		return err
	}
	a.cpu = cpuByProgram()
	for program, seconds := range before {
		a.cpu[program] -= seconds
	}
	time.Sleep(2 * time.Second) // for evictions that should not be
	return s.addTaken(ctx, r, a, decisions)
}

// lendingStage starts Berth and the scheduler where all may be borrowed, and a
// stand-in for the kubelets, which works until the context ends. Decisions go to
// the file that it returns.
func (c *cluster) lendingStage(ctx context.Context, name string) (*stage, string, error) {
	policy := filepath.Join(c.lab.out, name+"-policy.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, lendingPolicy, c.nodes*gpusPerNode), 0o644); err != nil {
		return nil, "", err
	}
	decisions := filepath.Join(c.lab.out, name+"-decisions.jsonl")
	if err := os.Remove(decisions); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	kubelet := bed.NewKubelet(ctx, c.client, false, nil)
	kubelet.HoldPending(true) // that claimants come to run is not measured
	s, err := c.newStage(ctx, []string{"--policy", policy, "--decision-log", decisions}, kubelet.Observe)
	return s, decisions, err
}

// addTaken adds a row, and fails if others than had to have ended.
func (s *stage) addTaken(ctx context.Context, r *report, a arrival, decisions string) error {
	decided, err := evictionsDecided(decisions)
	if err != nil {
		return err
	}
	calls, err := s.evictionCalls(ctx)
	if err != nil {
		return err
	}
	metrics, err := s.berth.metrics()
	if err != nil {
		return err
	}
	evicted := s.follower.endings(a.running)
	vain := len(evicted) - a.total()/a.lent
	_, bound := s.follower.times(a.pods)
	since := func(t time.Time) float64 { return t.Sub(a.start).Seconds() }
	r.add(a.String(), podsOf(len(a.running), a.lent), a.run, since(latest(bound)), since(a.created),
		since(earliest(decided)), since(latest(decided)), since(earliest(evicted)), since(latest(evicted)), since(earliest(bound)),
		len(evicted), vain, calls-a.calls, metrics[`berth_evictions_total{reason="reclaim"}`],
		a.cpu[filepath.Base(s.berth.cmd.Path)], a.cpu["kube-scheduler"], a.cpu["kube-apiserver"], a.cpu["bench"])
	if others := len(s.follower.endings(a.pods)); vain != 0 || others != 0 {
		return fmt.Errorf("%d pods were evicted, %d more than needed; %d of those that came ended", len(evicted), vain, others)
	}
	return nil
}

// evictionCalls are the Evictions that the API server has got so far, those
// included that were tried dry.
func (c *cluster) evictionCalls(ctx context.Context) (calls float64, err error) {
	counters, err := c.counters(ctx)
	for series, count := range counters {
		if strings.HasPrefix(series, "apiserver_request_total{") && strings.Contains(series, `subresource="eviction"`) {
			calls += count
		}
	}
	return calls, err
}

// lend makes the cluster full of running pods of the guest, and empty of all
// others. What an earlier run has not taken is left as it is.
func (c *cluster) lend(ctx context.Context, gpus int) ([]*corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var leave, running, missing []*corev1.Pod
	there := map[string]*corev1.Pod{}
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	for i := range c.nodes * gpusPerNode / gpus {
		pod := newPod(fmt.Sprintf("lent-%d-%d", gpus, i), gpus, inQueue("guest"), onNode(nodeName(i*gpus/gpusPerNode)))
		if old := there[pod.Name]; old != nil {
			pod = old
			delete(there, pod.Name)
		} else {
			missing = append(missing, pod)
		}
		running = append(running, pod)
	}
	for _, pod := range there {
		leave = append(leave, pod)
	}
	if err := c.delete(ctx, leave); err != nil {
		return nil, err
	}
	if err := c.create(ctx, missing); err != nil {
		return nil, err
	}
	return running, each(missing, func(pod *corev1.Pod) error { return c.run(ctx, pod) })
}

// run says that a bound pod runs, as its kubelet would.
func (c *cluster) run(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	_, err := c.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// evictionsDecided reads from a decision log when the calls of the engine began
// that decided whom to evict.
func evictionsDecided(path string) (times []time.Time, err error) {
	log, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(log) {
		var decision struct {
			Kind   string `json:"kind"`
			TimeMS int64  `json:"time_ms"`
		}
		if err := json.Unmarshal(line, &decision); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if decision.Kind == "evict" {
			times = append(times, time.UnixMilli(decision.TimeMS))
		}
	}
	return times, nil
}

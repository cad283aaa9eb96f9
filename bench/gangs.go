package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// gang512 measures how long a gang of 512 whole nodes takes on 512 nodes, from
// the first member's creation to the last member's binding.
func gang512(ctx context.Context, l *lab) (*report, error) {
	const members = 512
	r := l.newReport("gang512", "members", "run", "created to bound s", "created in s", "then last ungated s", "then first bound s", "then last bound s", "berth ms/pod", "scheduler ms/pod", "apiserver ms/pod")
	r.note("%s", rates)
	r.note("512 members of 8 GPUs on 512 nodes of 8, creation by %d clients included", writers)
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.growTo(ctx, members); err != nil {
		return r, err
	}
	for run := range full(l, 3, 1) {
		for _, name := range []string{"gated", "ungated"} {
			if err := c.gang512Once(ctx, r, name, run, members); err != nil {
				return r, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return r, nil
}

func (c *cluster) gang512Once(ctx context.Context, r *report, name string, run, members int) error {
	if err := c.clear(ctx); err != nil {
		return err
	}
	s, err := c.newStage(ctx, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	options := []podOption{inGang("whole", members)}
	if name == "gated" {
		options = append(options, gated)
	}
	pods := newPods(members, "member", gpusPerNode, options...)
	before, start := cpuByProgram(), time.Now()
	if err := c.create(ctx, pods); err != nil {
		return err
	}
	created := time.Now()
	if err := s.follower.allBound(pods, patience); err != nil {
		return err
	}
	after := cpuByProgram()
	perPod := func(program string) float64 { return (after[program] - before[program]) * 1000 / float64(members) }
	ungated, bound := s.follower.times(pods)
	released := latest(append(ungated, created)) // created, where there are no gates
	first, last := earliest(bound), latest(bound)
	r.add(name, run, last.Sub(start).Seconds(), created.Sub(start).Seconds(), released.Sub(created).Seconds(),
		first.Sub(released).Seconds(), last.Sub(first).Seconds(),
		perPod(filepath.Base(s.berth.cmd.Path)), perPod("kube-scheduler"), perPod("kube-apiserver"))
	return nil
}

// gangs measures Berth's answers to gangs on a real API server, without a
// scheduler: from the last member's creation until filter gives it a node, then
// filter of the other members; and until Berth says that a gang cannot run.
func gangs(ctx context.Context, l *lab) (*report, error) {
	r := l.newReport("gangs", "nodes", "gang", "run", "filter calls until its node", "that call ms", "later members p50 ms", "p99 ms", "verdict in why ms", "refusal ms", "reason")
	r.note("as soon as the API server has the last member, one keep-alive client calls filter for it until it gets a node, then for every other member once; the verdict: from that creation until /api/v1/why gives it")
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.growTo(ctx, 500); err != nil {
		return r, err
	}
	for run := range full(l, 3, 1) {
		if err := c.negativeVerdict(ctx, r, run); err != nil {
			return r, err
		}
	}
	if err := c.growTo(ctx, 5000); err != nil {
		return r, err
	}
	for run := range full(l, 3, 1) {
		for _, members := range []int{8, 1024} {
			if err := c.firstFilter(ctx, r, members, run); err != nil {
				return r, fmt.Errorf("gang of %d: %w", members, err)
			}
		}
	}
	return r, nil
}

// almostGang makes all members but the last and waits until Berth knows them.
func (c *cluster) almostGang(ctx context.Context, members int) (*extender, []*corev1.Pod, error) {
	berth, err := berthExtender(c)
	if err != nil {
		return nil, nil, err
	}
	if err := berth.start(); err != nil {
		return berth, nil, err
	}
	pods := newPods(members, "member", gpusPerNode, inGang("whole", members))
	if err := c.create(ctx, pods[:members-1]); err != nil {
		return berth, nil, err
	}
	for {
		why, err := berth.why(pods[0])
		if err != nil {
			return berth, nil, err
		}
		if why.Members == members-1 {
			return berth, pods, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *cluster) firstFilter(ctx context.Context, r *report, members, run int) error {
	if err := c.clear(ctx); err != nil {
		return err
	}
	berth, pods, err := c.almostGang(ctx, members)
	defer berth.stop()
	if err != nil {
		return err
	}
	client, err := dial(berth.verbs)
	if err != nil {
		return err
	}
	defer client.close()
	names := nodeNames(c.nodes)
	last := pods[members-1:]
	if err := c.create(ctx, last); err != nil {
		return err
	}
	request, err := encodeFilter(last[0], names)
	if err != nil {
		return err
	}
	start, calls := time.Now(), 0
	var call time.Duration
	for {
		var answer []byte
		if call, answer, err = client.post(request); err != nil {
			return err
		}
		calls++
		if nodes, err := kept(answer); err != nil {
			return err
		} else if len(nodes) == 1 {
			break
		}
		if time.Since(start) > patience {
			return fmt.Errorf("no node after %v: %.300s", patience, answer)
		}
	}
	var took []time.Duration
	for _, pod := range pods[:members-1] {
		request, err := encodeFilter(pod, names)
		if err != nil {
			return err
		}
		duration, _, err := client.post(request)
		if err != nil {
			return err
		}
		took = append(took, duration)
	}
	r.add(c.nodes, fmt.Sprintf("%dx%d", members, gpusPerNode), run, calls, milliseconds(call),
		milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99)), nil, nil, nil)
	return nil
}

// negativeVerdict fills 500 nodes and asks for a gang of 80 GPUs.
func (c *cluster) negativeVerdict(ctx context.Context, r *report, run int) error {
	const members = 10
	if err := c.clear(ctx); err != nil {
		return err
	}
	var fillers []*corev1.Pod
	for i := range c.nodes {
		fillers = append(fillers, newPod(fmt.Sprintf("filler-%d", i), gpusPerNode, onNode(nodeName(i))))
	}
	if err := c.create(ctx, fillers); err != nil {
		return err
	}
	berth, pods, err := c.almostGang(ctx, members)
	defer berth.stop()
	if err != nil {
		return err
	}
	client, err := dial(berth.verbs)
	if err != nil {
		return err
	}
	defer client.close()
	if err := c.create(ctx, pods[members-1:]); err != nil {
		return err
	}
	start := time.Now()
	var why why
	for {
		if why, err = berth.why(pods[0]); err != nil {
			return err
		}
		if why.Members == members && why.Reason != "WaitingForMembers" {
			break
		}
		if time.Since(start) > patience {
			return fmt.Errorf("no verdict: %+v", why)
		}
	}
	verdict := time.Since(start)
	request, err := encodeFilter(pods[0], nodeNames(c.nodes))
	if err != nil {
		return err
	}
	refusal, answer, err := client.post(request)
	if err != nil {
		return err
	}
	if nodes, err := kept(answer); err != nil || len(nodes) != 0 {
		return fmt.Errorf("filter keeps %v (%v)", nodes, err)
	}
	r.add(c.nodes, "10x8, cannot run", run, nil, nil, nil, nil, milliseconds(verdict), milliseconds(refusal), why.Reason)
	return nil
}

// why is what Berth says of a waiting pod.
type why struct {
	Reason  string
	Members int
}

func (e *extender) why(pod *corev1.Pod) (w why, err error) {
	resp, err := http.Get(e.ops + "/api/v1/why?pod=" + url.QueryEscape(pod.Namespace+"/"+pod.Name))
	if err != nil {
		return w, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusNotFound {
		return w, err // not seen yet
	}
	return w, json.Unmarshal(body, &w)
}

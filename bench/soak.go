package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// soak runs two replicas for hours under a load that means harm, and says what
// their memory does. What is created differs from object to object in all that a
// user can choose: a table that is kept by any of it would grow.
func soak(ctx context.Context, l *lab) (r *report, err error) {
	lasts, samples := full(l, 2*time.Hour, 2*time.Minute), 12
	r = l.newReport("soak", "minutes", "leader MiB", "follower MiB", "pods created", "pods bound",
		"gangs started", "nodes come and gone", "connections of unknown clients", "pods there")
	r.note("2 replicas, 100 nodes of 8 GPUs; pods of one GPU and without, deleted when bound, from 2 clients; gangs of 8 of a name each; " +
		"pods with a resource, 60 labels and 60 annotations of their own, a forged plan and a gang that never completes, 200 at a time; " +
		"a node with labels of its own that comes and goes; unknown clients that hold 50 connections to each port and send half a request; " +
		"the API server restarted at every third sample")
	b, err := l.startBed()
	if err != nil {
		return r, err
	}
	defer b.Close(false)
	err = scenarioOf(func(t testing.TB) {
		s := &soaking{s: b.Scenario(t, bed.Options{Replicas: 2}), ctx: ctx}
		s.s.Nodes(100).GPUs(gpusPerNode).Create()
		var loads sync.WaitGroup
		for _, load := range []func(){s.lone, s.lone, s.gangs, s.hostilePods, s.guests, s.unknownClients} {
			loads.Go(load)
		}
		defer func() {
			s.done.Store(true)
			loads.Wait()
		}()
		started := time.Now()
		for i := 0; i <= samples && !t.Failed() && ctx.Err() == nil; i++ {
			time.Sleep(time.Until(started.Add(lasts * time.Duration(i) / time.Duration(samples))))
			if i%3 == 2 {
				s.s.RestartAPIServer()
			}
			s.sample(r, time.Since(started))
		}
	})
	return r, errors.Join(err, ctx.Err())
}

type soaking struct {
	s    *bed.Scenario
	ctx  context.Context
	done atomic.Bool

	created, bound, lones, started, visits, others atomic.Int64
}

func (s *soaking) sample(r *report, since time.Duration) {
	leader, follower := s.s.Leader()
	var memory [2]float64
	for i, replica := range []*bed.Replica{leader, follower} {
		memory[i], _, _ = memoryOf(replica.Pid())
	}
	there := -1
	if pods, err := s.s.Client.CoreV1().Pods("").List(s.ctx, metav1.ListOptions{}); err == nil {
		there = len(pods.Items)
	}
	r.add(since.Minutes(), memory[0], memory[1], s.created.Load(), s.bound.Load(),
		s.started.Load(), s.visits.Load(), s.others.Load(), there)
}

func (s *soaking) stopped() bool { return s.done.Load() || s.ctx.Err() != nil }

// create makes the pod; nil where the API server does not (it is restarting).
func (s *soaking) create(pod *corev1.Pod) *corev1.Pod {
	made, err := s.s.Client.CoreV1().Pods(pod.Namespace).Create(s.ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil
	}
	s.created.Add(1)
	return made
}

// untilBound waits ten seconds at most.
func (s *soaking) untilBound(pods ...*corev1.Pod) bool {
	if len(pods) == 0 { // the API server is restarting
		time.Sleep(time.Second)
		return false
	}
	for tries := 0; tries < 200 && !s.stopped(); tries++ {
		if s.s.Bound(pods...) == len(pods) {
			s.bound.Add(int64(len(pods)))
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// lone pods come one after the other, every other one with a GPU.
func (s *soaking) lone() {
	for !s.stopped() {
		i := s.lones.Add(1)
		builder := s.s.Pod(fmt.Sprintf("lone-%d", i)).GatedIf(i%4 == 0)
		if i%2 == 0 {
			builder.GPUs(1)
		}
		if pod := s.create(builder.Build()); pod != nil {
			s.untilBound(pod)
			s.remove(pod)
		} else {
			time.Sleep(time.Second)
		}
	}
}

// gangs start one after the other, each under a name of its own.
func (s *soaking) gangs() {
	for i := 0; !s.stopped(); i++ {
		name := fmt.Sprintf("gang-%d", i)
		var pods []*corev1.Pod
		for member := range 8 {
			pod := s.s.Pod(fmt.Sprintf("%s-%d", name, member)).GPUs(1).Gang(name, 8).GatedIf(i%2 == 0).Build()
			if made := s.create(pod); made != nil {
				pods = append(pods, made)
			}
		}
		if s.untilBound(pods...) && len(pods) == 8 {
			s.started.Add(1)
		}
		s.remove(pods...)
	}
}

func (s *soaking) remove(pods ...*corev1.Pod) {
	now := int64(0)
	for _, pod := range pods {
		// An API server that restarts is asked again.
		for range 20 {
			err := s.s.Client.CoreV1().Pods(pod.Namespace).Delete(s.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			if err == nil || strings.Contains(err.Error(), "not found") {
				break
			}
			time.Sleep(time.Second)
		}
	}
}

// hostilePods never run, and no two of them are alike.
func (s *soaking) hostilePods() {
	var live []*corev1.Pod
	for i := 0; !s.stopped(); i++ {
		time.Sleep(20 * time.Millisecond)
		builder := s.s.Pod(fmt.Sprintf("hostile-%d", i)).GPUs(1+i%8).CPU(fmt.Sprintf("%dm", 1+i)).
			Resource(corev1.ResourceName(fmt.Sprintf("example.com/r%d", i)), "1").
			Annotation("berth.dev/plan", fmt.Sprintf("v1;plan=%d;node=node-%d;queue=q%d;rank=0", i, i, i)).
			Annotation(fmt.Sprintf("berth.dev/x%d", i), strings.Repeat("x", 16<<10)).
			Select(fmt.Sprintf("key-%d", i), "value")
		if i%3 == 0 {
			builder.Gang(fmt.Sprintf("never-%d", i), 1000)
		}
		for key := range 60 {
			builder.Label(fmt.Sprintf("a%d-%d", i, key), "x").Annotation(fmt.Sprintf("a%d-%d", i, key), strings.Repeat("y", 100))
		}
		if pod := s.create(builder.Build()); pod != nil {
			live = append(live, pod)
		}
		if len(live) > 200 {
			s.remove(live[0])
			live = live[1:]
		}
	}
}

// guests are nodes that come once and never again.
func (s *soaking) guests() {
	nodes := s.s.Client.CoreV1().Nodes()
	for i := 0; !s.stopped(); i++ {
		guest := newNode(1_000_000 + i)
		guest.UID, guest.Name = "", fmt.Sprintf("guest-%d", i)
		guest.Labels[fmt.Sprintf("label-%d", i)] = "x"
		guest.Labels[rackLabel] = fmt.Sprintf("rack-of-%d", i)
		guest.Status.Allocatable[corev1.ResourceName(fmt.Sprintf("example.com/n%d", i))] = resource.MustParse("1")
		_, _ = nodes.Create(s.ctx, guest, metav1.CreateOptions{})
		time.Sleep(time.Second)
		for range 20 {
			if err := nodes.Delete(s.ctx, guest.Name, metav1.DeleteOptions{}); err == nil || strings.Contains(err.Error(), "not found") {
				break
			}
			time.Sleep(time.Second)
		}
		s.visits.Add(1)
	}
}

// unknownClients hold what connections they get, and begin requests that never end.
func (s *soaking) unknownClients() {
	var ports []int
	for _, replica := range s.s.Replicas {
		verbs, ops := replica.Ports()
		ports = append(ports, verbs, ops)
	}
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for i := 0; !s.stopped(); i++ {
		time.Sleep(50 * time.Millisecond)
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", ports[i%len(ports)]), time.Second)
		if err != nil {
			continue
		}
		_, _ = fmt.Fprintf(conn, "POST /filter HTTP/1.1\r\nHost: x\r\nX-%d: %s\r\nContent-Length: 1000000\r\n", i, strings.Repeat("z", 1000))
		s.others.Add(1)
		if held = append(held, conn); len(held) > 200 {
			_ = held[0].Close()
			held = held[1:]
		}
	}
}

package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// One GPU pod goes through filter and bind: Berth is asked, answers one node,
// and posts the Binding itself. The node's GPUs are counted afterwards, so that
// exactly seven more pods fit.
func TestOnePodThroughFilterAndBind(t *testing.T) {
	s := control.Scenario(t, bed.Options{RecordVerbs: true})
	s.Nodes(1).GPUs(8).Create()
	pod := s.Pod("one").GPUs(1).Create()
	s.AllBound(pod)

	name := "default/one"
	if len(s.Verbs.Calls("filter", name)) == 0 {
		t.Error("filter was not called")
	}
	// The watch may show the pod bound before the recorder has the answer.
	bed.Eventually(t, bed.Timeout, "one bind call is answered", func() error {
		binds := s.Verbs.Calls("bind", name)
		return bed.Unless(len(binds) == 1 && binds[0].Status == 200, "bind calls: %+v", binds)
	})
	more := s.Pod("more").GPUs(1).CreateN(8)
	bed.Eventually(t, bed.Timeout, "the node fills up", func() error {
		return bed.Unless(s.Bound(more...) == 7, "%d of 8 bound", s.Bound(more...))
	})
	var waiting *corev1.Pod
	for _, pod := range more {
		if s.NodeOf(pod) == "" {
			waiting = pod
		}
	}
	s.NoneBound(waiting)
	s.WhyIs(waiting, "InsufficientDevices")
	// Its room comes from the first pod's end.
	s.Succeed(pod)
	s.AllBound(waiting)
}

// A filter answer partitions the offered nodes: every node is kept, failed or
// unresolvable, none twice, and none else is named.
func TestFilterAnswerPartitionsNodes(t *testing.T) {
	s := control.Scenario(t, bed.Options{RecordVerbs: true})
	s.Nodes(5).GPUs(8).Create()
	s.AllBound(s.Pod("fits").GPUs(4).CreateN(3)...)
	// The scheduler's own filters pass nodes that a full cluster fails; this one
	// reaches Berth because a node has room.
	for _, call := range s.Verbs.Calls("filter", "") {
		var answer struct {
			NodeNames                               []string
			FailedNodes, FailedAndUnresolvableNodes map[string]string
			Error                                   string
		}
		if err := json.Unmarshal(call.Answer, &answer); err != nil {
			t.Fatalf("answer %s: %v", call.Answer, err)
		}
		seen := map[string]int{}
		for _, node := range answer.NodeNames {
			seen[node]++
		}
		for node := range answer.FailedNodes {
			seen[node]++
		}
		for node := range answer.FailedAndUnresolvableNodes {
			seen[node]++
		}
		if answer.Error != "" || len(seen) != call.Nodes {
			t.Errorf("%d nodes offered, %d named, error %q", call.Nodes, len(seen), answer.Error)
		}
		for node, n := range seen {
			if n != 1 {
				t.Errorf("node %s is named %d times", node, n)
			}
		}
	}
}

// A pod without managed resources is none of Berth's business: no verb is
// called for it, and Berth writes nothing on it.
func TestPodWithoutDevicesIsUntouched(t *testing.T) {
	s := control.Scenario(t, bed.Options{RecordVerbs: true})
	s.Nodes(1).GPUs(8).Create()
	pod := s.Pod("web").CPU("1").Create()
	s.AllBound(pod)
	for _, verb := range []string{"filter", "prioritize", "bind", "preempt"} {
		if calls := s.Verbs.Calls(verb, "default/web"); len(calls) > 0 {
			t.Errorf("%s was called for the pod", verb)
		}
	}
	for key := range s.Now(pod).Annotations {
		if strings.HasPrefix(key, "berth.dev/") {
			t.Errorf("the pod was given the annotation %s", key)
		}
	}
}

// A whole-node pod takes its node alone: not a partly used one, and nobody
// joins it, though it asked for one GPU only.
func TestWholeNodePodIsAlone(t *testing.T) {
	for _, gated := range []bool{true, false} {
		t.Run(waiting(gated), func(t *testing.T) {
			s := control.Scenario(t, bed.Options{})
			s.Nodes(2).GPUs(8).Create()
			first := s.Pod("first").GPUs(1).Create()
			s.AllBound(first)
			whole := s.Pod("whole").GPUs(1).WholeNode().GatedIf(gated).Create()
			s.AllBound(whole)
			if s.NodeOf(whole) == s.NodeOf(first) {
				t.Fatal("the whole-node pod shares its node")
			}
			fill := s.Pod("fill").GPUs(1).CreateN(7)
			s.AllBound(fill...)
			late := s.Pod("late").GPUs(1).Create()
			s.NoneBound(late)
			if counts := s.NodesOf(append(fill, first)); len(counts) != 1 {
				t.Errorf("pods by node: %v", counts)
			}
			s.DeleteNow(whole)
			s.AllBound(late)
		})
	}
}

// waiting names the two ways in which pods wait.
func waiting(gated bool) string {
	if gated {
		return "gated"
	}
	return "ungated"
}

// A pod of a scheduler that is not configured is never planned or ungated, but
// counts as soon as it is bound.
func TestPodOfAnotherSchedulerIsCounted(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	foreign := s.Pod("foreign").GPUs(6).Scheduler("elsewhere").On("node-000").Create()
	idle := s.Pod("idle").GPUs(8).Scheduler("elsewhere").Gated().Create()
	s.AllBound(foreign)

	gang := s.Pod("g").GPUs(5).Gang("g", 2).Gated().CreateN(2)
	s.NoneBound(append(gang, idle)...)
	if len(s.Now(idle).Spec.SchedulingGates) != 1 {
		t.Error("Berth ungated another scheduler's pod")
	}
	s.DeleteNow(foreign)
	s.AllBound(gang...)
}

// Small pods fill nodes that are in use and leave the others whole, so that
// whole-node jobs still find room: 12 one-GPU pods on 4 nodes use two nodes.
func TestSmallPodsFillUsedNodes(t *testing.T) {
	for _, gated := range []bool{true, false} {
		t.Run(waiting(gated), func(t *testing.T) {
			s := control.Scenario(t, bed.Options{})
			s.Nodes(4).GPUs(8).Create()
			small := s.Pod("small").GPUs(1).GatedIf(gated).CreateN(12)
			s.AllBound(small...)
			if counts := s.NodesOf(small); len(counts) != 2 {
				t.Errorf("12 one-GPU pods by node: %v", counts)
			}
			s.AllBound(s.Pod("big").GPUs(8).GatedIf(gated).CreateN(2)...)
		})
	}
}

// GPUs are not all: a gang for which CPU is short waits, with the reason said,
// and holds no GPU; other pods use them.
func TestCPUAndMemoryCount(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).CPU(16).Memory("64Gi").Create()
	hogs := s.Pod("hog").CPU("12").AwayFrom("app", "hog").Label("app", "hog").CreateN(2)
	s.AllBound(hogs...)
	gang := s.Pod("g").GPUs(1).CPU("8").Gang("g", 2).Gated().CreateN(2)
	s.WhyIs(gang[0], "InsufficientCpuOrMemory")
	s.AllBound(s.Pod("light").GPUs(8).CreateN(2)...)
	s.NoneBound(gang...)
}

// What cannot be written, because the disk is full, is a failure of the environment.
func TestOutputThatCannotBeWritten(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	for _, arguments := range [][]string{{"--help"}, {"man"}, {"completion", "bash"}, {"check", "--schema"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command(s.Berth(), arguments...)
		var stderr bytes.Buffer
		command.Stdout, command.Stderr = full, &stderr
		if err := command.Run(); command.ProcessState.ExitCode() != 3 || stderr.Len() == 0 {
			t.Errorf("berth %v: %v, and says %q", arguments, err, stderr.String())
		}
		full.Close()
	}
}

// Health, metrics and the API answer, and the metric names that dashboards use
// are there.
func TestOperationsEndpoints(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	s.AllBound(s.Pod("one").GPUs(1).Create())
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/readyz?verbose", "/configz"} {
		s.Get(path)
	}
	for _, path := range []string{"/api/v1/queues", "/api/v1/gangs", "/api/v1/nodes", "/api/v1/why?pod=default/one"} {
		if body := s.Get(path); !json.Valid(body) {
			t.Errorf("%s is not JSON: %.200s", path, body)
		}
	}
	metrics := s.Metrics()
	for _, family := range []string{
		"berth_queue_used", "berth_fragmentation_ratio", "berth_binds_total", "berth_plans", "berth_snapshot_age_seconds",
		"berth_cache_objects", "berth_leader", "berth_policy_last_reload_successful", "berth_build_info",
		"berth_request_duration_seconds_count",
	} {
		if _, found := metrics.Sum(family); !found {
			t.Errorf("no metric %s", family)
		}
	}
	bed.Eventually(t, bed.Timeout, "one GPU is counted", func() error {
		used, _ := s.Metrics().Sum("berth_queue_used", fmt.Sprintf("resource=%q", bed.GPU))
		return bed.Unless(used == 1, "berth_queue_used is %v", used)
	})
}

package bed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// holds is how long an expectation must stay true before the next step.
	// Creation times are whole seconds: what comes after it is younger.
	holds = 1100 * time.Millisecond
	// quiet is how long nothing may change after the last step.
	quiet = 1500 * time.Millisecond
)

// story is a scenario file as `berth simulate run --expand` prints it.
type story struct {
	Proves string            `json:"proves"`
	Policy string            `json:"policy"`
	Nodes  []json.RawMessage `json:"nodes"`
	Steps  []storyStep       `json:"steps"`
}

type storyStep struct {
	Line         int               `json:"line"`
	Key          string            `json:"key"`
	Objects      []json.RawMessage `json:"objects"`
	Pods         []podName         `json:"pods"`
	Nodes        []string          `json:"nodes"`
	GPUs         map[string]int    `json:"gpus"`
	Policy       string            `json:"policy"`
	Process      string            `json:"process"`
	Milliseconds int               `json:"milliseconds"`
}

type podName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// observation is what the judge of scenario files reads.
type observation struct {
	Nodes []seenNode `json:"nodes"`
	Pods  []seenPod  `json:"pods"`
}

type seenNode struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

type seenPod struct {
	podName
	Node     string `json:"node,omitempty"`
	Gated    bool   `json:"gated,omitempty"`
	Refused  bool   `json:"unschedulable,omitempty"`
	Finished bool   `json:"finished,omitempty"`
	GPUs     int    `json:"gpus,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// RunStory carries out a scenario file on the real control plane. What it means
// and whether it holds is said by the berth program, as in the simulator. The
// file's policy is Berth's.
func (b *Bed) RunStory(t testing.TB, path string, o Options) *Scenario {
	t.Helper()
	binary, err := berthBinary()
	must(t, err)
	out, err := exec.Command(binary, "simulate", "run", "--expand", path).Output()
	must(t, err)
	var told story
	must(t, json.Unmarshal(out, &told))

	o.Policy = told.Policy
	s := b.Scenario(t, o)
	must(t, s.post(told.Nodes))
	s.join = o.Join
	for _, step := range told.Steps {
		if err := s.carryOut(binary, path, step); err != nil {
			t.Fatalf("%s, line %d (%s): %v\nproves: %s", path, step.Line, step.Key, err, told.Proves)
		}
	}
	s.staysQuiet()
	return s
}

func (s *Scenario) carryOut(binary, path string, step storyStep) error {
	switch step.Key {
	case "create", "nodes":
		return s.post(step.Objects)
	case "delete":
		return s.eachPod(step.Pods, func(pod *corev1.Pod) error {
			return s.Client.CoreV1().Pods(pod.Namespace).Delete(s.ctx, pod.Name, metav1.DeleteOptions{})
		})
	case "succeed", "fail":
		phase := map[string]string{"succeed": "Succeeded", "fail": "Failed"}[step.Key]
		return s.eachPod(step.Pods, func(pod *corev1.Pod) error {
			return s.endPod(phase, pod)
		})
	case "ungate":
		return s.eachPod(step.Pods, func(pod *corev1.Pod) error {
			for _, gate := range pod.Spec.SchedulingGates {
				if gate.Name != AdmissionGate {
					s.RemoveGate(pod, gate.Name)
				}
			}
			return nil
		})
	case "cordon", "uncordon":
		for _, node := range step.Nodes {
			s.PatchNode(node, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, step.Key == "cordon"))
		}
	case "removeNodes":
		for _, node := range step.Nodes {
			s.DeleteNode(node)
		}
	case "setGpus":
		for node, gpus := range step.GPUs {
			s.SetCapacity(node, GPU, gpus)
		}
	case "policy":
		s.WritePolicy(step.Policy)
	case "kill":
		if step.Process == "scheduler" {
			s.StopScheduler()
			s.StartScheduler()
			return nil
		}
		s.KillBerth(syscall.SIGKILL)
		s.StartBerth()
	case "wait":
		// The passing of time is what the file asks for.
		<-time.After(time.Duration(step.Milliseconds) * time.Millisecond)
	case "expect", "freeNodes":
		return s.expect(binary, path, step.Line)
	default:
		return fmt.Errorf("unknown step %q", step.Key)
	}
	return nil
}

// post creates objects one after the other, in their order.
func (s *Scenario) post(objects []json.RawMessage) error {
	for _, raw := range objects {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			return err
		}
		if err := s.postOne(kind.Kind, raw); err != nil {
			return fmt.Errorf("%w in %s", err, raw)
		}
	}
	return nil
}

func (s *Scenario) postOne(kind string, raw []byte) error {
	switch kind {
	case "Node":
		var node corev1.Node
		if err := json.Unmarshal(raw, &node); err != nil {
			return err
		}
		s.observer.addNode(&node)
		return s.createNode(&node)
	case "PriorityClass":
		var class schedulingv1.PriorityClass
		if err := json.Unmarshal(raw, &class); err != nil {
			return err
		}
		return s.createPriorityClass(&class)
	case "Pod":
		var pod corev1.Pod
		if err := json.Unmarshal(raw, &pod); err != nil {
			return err
		}
		if err := s.bed.ensureNamespace(s.ctx, pod.Namespace); err != nil {
			return err
		}
		_, err := s.Client.CoreV1().Pods(pod.Namespace).Create(s.ctx, &pod, metav1.CreateOptions{})
		return err
	default:
		return fmt.Errorf("unknown kind %q", kind)
	}
}

// eachPod acts on those of the pods that still exist.
func (s *Scenario) eachPod(names []podName, do func(*corev1.Pod) error) error {
	for _, name := range names {
		pod, err := s.Client.CoreV1().Pods(name.Namespace).Get(s.ctx, name.Name, metav1.GetOptions{})
		if err == nil {
			err = do(pod)
		}
		if ignoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// expect waits until the expectation at a line of the file holds, and stays so.
func (s *Scenario) expect(binary, path string, line int) error {
	var since time.Time
	return poll(Timeout, func() error {
		if err := s.judge(binary, path, line); err != nil {
			since = time.Time{}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		return Unless(time.Since(since) >= holds, "it holds, but only since %v", since)
	})
}

func (s *Scenario) judge(binary, path string, line int) error {
	seen, err := s.observe(s.hasBerth())
	if err != nil {
		return err
	}
	input, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	command := exec.Command(binary, "simulate", "run", "--judge", strconv.Itoa(line), path)
	command.Stdin = bytes.NewReader(input)
	out, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimSpace(string(out)))
}

// observe reads the cluster from the API server itself.
func (s *Scenario) observe(why bool) (seen observation, err error) {
	nodes, err := s.Client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return seen, err
	}
	for _, node := range nodes.Items {
		seen.Nodes = append(seen.Nodes, seenNode{Name: node.Name, Labels: node.Labels})
	}
	pods, err := s.Client.CoreV1().Pods("").List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return seen, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		one := seenPod{podName: podName{pod.Namespace, pod.Name}, Node: pod.Spec.NodeName}
		one.Finished = pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for _, gate := range pod.Spec.SchedulingGates {
			one.Gated = one.Gated || gate.Name == AdmissionGate
		}
		for _, condition := range pod.Status.Conditions {
			refused := condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable
			one.Refused = one.Refused || (refused && one.Node == "")
		}
		for _, container := range pod.Spec.Containers {
			amount := container.Resources.Limits[GPU]
			one.GPUs += int(amount.Value())
		}
		if why && one.Node == "" && !one.Finished {
			answer, err := s.Why(pod)
			if err != nil {
				return seen, err
			}
			one.Reason = answer.Reason
		}
		seen.Pods = append(seen.Pods, one)
	}
	return seen, nil
}

// staysQuiet fails if any pod moves, ends or appears after the last step.
func (s *Scenario) staysQuiet() {
	s.T.Helper()
	places := func() map[podName]string {
		seen, err := s.observe(false)
		must(s.T, err)
		found := map[podName]string{}
		for _, pod := range seen.Pods {
			found[pod.podName] = fmt.Sprintf("%s finished=%v", pod.Node, pod.Finished)
		}
		return found
	}
	before := places()
	for end := time.Now().Add(quiet); time.Now().Before(end); <-time.After(200 * time.Millisecond) {
		if now := places(); !maps.Equal(before, now) {
			s.T.Fatalf("after the last step something moved: %v, then %v", before, now)
		}
	}
}

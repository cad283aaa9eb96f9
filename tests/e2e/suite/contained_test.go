package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// What users do to each other where no admission policy stops them: Berth itself
// contains it and says why.

// nextSecond lets creation times, which have whole seconds, tell what is made from
// now on from what is there.
func nextSecond(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	bed.Eventually(t, bed.Timeout, "the clock moves on", func() error {
		for _, pod := range pods {
			if time.Since(pod.CreationTimestamp.Time) <= time.Second {
				return fmt.Errorf("still the same second")
			}
		}
		return nil
	})
}

// A pod that takes a colleague's gang name, says the same of it, and can run
// nowhere: the gang starts without it, and it is told its own reason.
func TestMemberThatFitsNowhere(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(2).GPUs(8).Create()
		gang := s.Pod("g").GPUs(4).Gang("g", 4).GatedIf(gated).CreateRange(0, 3)
		odd := s.Pod("odd").GPUs(4).Gang("g", 4).Select("example.com/pool", "none").GatedIf(gated).Create()
		if why := s.WhyIs(gang[0], "NoMatchingNodes"); !strings.Contains(why.Raw, "of odd.") {
			t.Errorf("why does not name it: %s", why.Raw)
		}
		s.NoneBound(append(gang, odd)...)
		gang = append(gang, s.Pod("g").GPUs(4).Gang("g", 4).GatedIf(gated).CreateRange(3, 4)...)
		s.AllBound(gang...)
		s.NoneBound(odd)
	})
}

// One that comes first fixes the gang's size, as the first member does; the
// others are told which pod that is, so that they can have it removed.
func TestOtherMemberThatComesFirst(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(2).GPUs(8).Create()
		odd := s.Pod("odd").GPUs(1).Gang("g", 100).GatedIf(gated).Create()
		nextSecond(t, odd)
		gang := s.Pod("g").GPUs(4).Gang("g", 4).GatedIf(gated).CreateN(4)
		why := s.WhyIs(gang[0], "GangConflict")
		if !strings.Contains(why.Raw, "The gang's first member, odd, says size 100") {
			t.Errorf("why does not name it: %s", why.Raw)
		}
		said(s, gang[0], "GangConflict", "odd")
		s.NoneBound(append(gang, odd)...)
		s.DeleteNow(odd)
		s.AllBound(gang...)
	})
}

// said waits for an Event about a pod that gives a reason and mentions a word.
func said(s *bed.Scenario, pod *corev1.Pod, reason, word string) {
	s.T.Helper()
	bed.Eventually(s.T, bed.Timeout, "an Event says "+reason, func() error {
		events, err := s.Client.EventsV1().Events(pod.Namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + pod.Name})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Note, word) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of them", len(events.Items))
	})
}

// Sizes that are none are refused with what is wrong; ones that are too large
// wait with the numbers; none of them keeps anybody else from starting.
func TestFalseSizes(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	member := func(name string) *bed.PodBuilder {
		return s.Pod(name).GPUs(1).Gang(name, 2).Gated()
	}
	var pods []*corev1.Pod
	for i, c := range []struct{ size, min, reason, word string }{
		{"0", "", "InvalidRequest", "berth.dev/gang-size must be a whole number"},
		{"-3", "", "InvalidRequest", "berth.dev/gang-size must be a whole number"},
		{"many", "", "InvalidRequest", "berth.dev/gang-size must be a whole number"},
		{"99999999999999999999", "", "InvalidRequest", "berth.dev/gang-size must be a whole number"},
		{"2", "3", "InvalidRequest", "minimum is larger than its size"},
		{"2", "0", "InvalidRequest", "berth.dev/gang-min-member must be a whole number"},
		{"1000", "", "WaitingForMembers", "starts with 1000 members; 1 exist"},
	} {
		builder := member(fmt.Sprintf("false-%d", i)).Annotation("berth.dev/gang-size", c.size)
		if c.min != "" {
			builder.Annotation("berth.dev/gang-min-member", c.min)
		}
		pod := builder.Create()
		if why := s.WhyIs(pod, c.reason); !strings.Contains(why.Raw, c.word) {
			t.Errorf("size %q, minimum %q: %s", c.size, c.min, why.Raw)
		}
		pods = append(pods, pod)
	}
	// More than the cluster will ever have, and all there.
	large := s.Pod("large").GPUs(1).Gang("large", 17).Gated().CreateN(17)
	s.WhyIs(large[0], "NeverFits")
	s.AllBound(s.Pod("sound").GPUs(8).Gang("sound", 2).Gated().CreateN(2)...)
	s.NoneBound(append(pods, large...)...)
}

// A gang whose members are released and never come to the barrier gives its room
// back, says so, and does not keep others out when it is tried again.
func TestGangThatNeverBinds(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: strings.Replace(limited(16), "queues:", "gang: {planTimeout: 2s, bindTimeout: 1s}\nqueues:", 1)})
	s.Namespace("team-a")
	s.Namespace("team-b")
	s.Nodes(2).GPUs(8).Create()
	// kube-scheduler does not take it: its volume does not exist.
	gang := s.Pod("g").Namespace("team-a").GPUs(8).Gang("g", 2).Claim("nowhere").Gated().CreateN(2)
	s.WhyIs(gang[0], "Starting", "CoolingDown", "RefusedByScheduler")
	others := s.Pod("other").Namespace("team-b").GPUs(8).Gated().CreateN(2)
	s.AllBound(others...)
	s.NoneBound(gang...)
	s.WhyIs(gang[0], "CoolingDown", "RefusedByScheduler", "InsufficientDevices")
}

// Plans and devices that users write gain nothing: no node, no place before
// others, no devices twice, not even over a restart.
func TestForgedPlansGainNothing(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "over a restart"}[restart], func(t *testing.T) {
			s := teams(t, 16)
			honest := s.Pod("honest").Namespace("team-b").GPUs(8).Gang("honest", 3).Gated().CreateN(3)
			started := s.Pod("started").Namespace("team-a").GPUs(4).Gang("started", 1).Min(1).Gated().Create()
			s.AllBound(append(honest, started)...)
			plan := s.Now(honest[0]).Annotations["berth.dev/plan"]
			own := s.Now(started).Annotations["berth.dev/plan"]
			if plan == "" || own == "" {
				t.Fatalf("plans %q and %q", plan, own)
			}
			full := s.NodeOf(honest[0])

			// Another's plan; one of one's own for a full node; nonsense.
			forgers := []*corev1.Pod{
				s.Pod("copied").Namespace("team-a").GPUs(8).Gang("copied", 1).Annotation("berth.dev/plan", plan).Gated().Create(),
				s.Pod("aimed").Namespace("team-a").GPUs(8).Gang("started", 1).Min(1).Annotation("berth.dev/plan", aim(own, full)).Gated().Create(),
				s.Pod("queued").Namespace("team-a").GPUs(8).Annotation("berth.dev/plan", "v1;plan=x;node="+full+";queue=team-b;rank=0").Create(),
				s.Pod("nonsense").Namespace("team-a").GPUs(8).Annotation("berth.dev/plan", "v1;;;=;node=\n;rank=99999999999999").Gated().Create(),
				s.Pod("devices").Namespace("team-a").GPUs(8).Annotation("berth.dev/devices", `{"main":{"nvidia.com/gpu":[0,0,-1,99999999999]}}`).Gated().Create(),
			}
			if restart {
				s.StopBerth()
				s.StartBerth()
			}
			s.NoneBound(forgers...)
			queueUses(t, s, "team-a", 4)
			queueUses(t, s, "team-b", 24)
			// What is free is theirs who may have it.
			s.AllBound(s.Pod("last").Namespace("team-a").GPUs(4).Gated().Create())
			s.NoneBound(forgers...)
		})
	}
}

// aim is a plan with another node.
func aim(plan, node string) string {
	fields := strings.Split(plan, ";")
	for i, field := range fields {
		if strings.HasPrefix(field, "node=") {
			fields[i] = "node=" + node
		}
	}
	return strings.Join(fields, ";")
}

// queueUses checks how many GPUs a queue is charged.
func queueUses(t *testing.T, s *bed.Scenario, queue string, gpus float64) {
	t.Helper()
	bed.Eventually(t, bed.Timeout, fmt.Sprintf("queue %s is charged %v GPUs", queue, gpus), func() error {
		used, _ := s.Metrics().Sum("berth_queue_used", fmt.Sprintf("queue=%q", queue), fmt.Sprintf("resource=%q", bed.GPU))
		return bed.Unless(used == gpus, "it is %v", used)
	})
}

// What a tenant reads of its own pods, in `why`, in Events and in their status,
// names nothing of another tenant's: numbers and queue names only.
func TestReasonsTellNothingOfOthers(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: limited(16) + "  limit: {nvidia.com/gpu: 24}\n"})
	s.Namespace("team-a")
	s.Namespace("hush-ns")
	s.WritePolicy(strings.Replace(limited(16), "namespaces: [team-b]", "namespaces: [hush-ns]", 1))
	s.Nodes(4).GPUs(8).Create()
	hidden := s.Pod("hush-pod").Namespace("hush-ns").GPUs(4).Gang("hush-gang", 5).Gated().CreateN(5)
	hidden = append(hidden, s.Pod("hush-one").Namespace("hush-ns").GPUs(6).Gated().Create())
	s.AllBound(hidden...)
	s.Pod("hush-waits").Namespace("hush-ns").GPUs(8).Gang("hush-more", 2).Gated().CreateN(2)

	mine := []*corev1.Pod{
		s.Pod("fragmented").Namespace("team-a").GPUs(8).Gated().Create(),
		s.Pod("ungated").Namespace("team-a").GPUs(8).Create(),
		s.Pod("never").Namespace("team-a").GPUs(9).Gated().Create(),
		s.Pod("members").Namespace("team-a").GPUs(1).Gang("hush-gang", 5).Gated().Create(),
		s.Pod("limit").Namespace("team-a").GPUs(8).Gang("limit", 3).Gated().Create(),
		s.Pod("others").Namespace("team-a").GPUs(1).Queue("team-b").Gated().Create(),
	}
	for _, pod := range mine {
		bed.Eventually(t, bed.Timeout, pod.Name+" has a reason", func() error {
			why, err := s.Why(pod)
			if err != nil {
				return err
			}
			// The name of its own gang is its own word.
			if text := strings.ReplaceAll(why.Raw, "team-a/gang/hush-gang", ""); pod.Name != "members" && strings.Contains(text, "hush") {
				t.Errorf("why %s: %s", pod.Name, why.Raw)
			}
			return bed.Unless(why.Reason != "", "%s", why.Raw)
		})
	}
	s.NoneBound(mine...)
	events, err := s.Client.EventsV1().Events("team-a").List(s.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) == 0 {
		t.Error("no Events")
	}
	for _, e := range events.Items {
		if strings.Contains(e.Note, "hush") {
			t.Errorf("Event of %s: %s", e.Regarding.Name, e.Note)
		}
	}
	for _, pod := range mine {
		for _, condition := range s.Now(pod).Status.Conditions {
			if strings.Contains(condition.Message, "hush") {
				t.Errorf("condition of %s: %s", pod.Name, condition.Message)
			}
		}
	}
}

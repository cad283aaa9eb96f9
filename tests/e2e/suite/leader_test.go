package suite

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

var (
	leasePath = regexp.MustCompile(`/leases(/berth)?$`)
	anyFilter = `{"Pod":{"metadata":{"name":"p","namespace":"default","uid":"u"}},"NodeNames":["node-000"]}`
	anyBind   = `{"PodName":"p","PodNamespace":"default","PodUID":"u","Node":"node-000"}`
	anyVictim = `{"Pod":{"metadata":{"uid":"u"}},"NodeNameToMetaVictims":{"node-000":{"Pods":[{"UID":"v"}]}}}`
)

// turns checks that the replicas answered one after the other, in this order.
func turns(t *testing.T, s *bed.Scenario, want ...*bed.Replica) {
	t.Helper()
	var names []string
	for _, r := range want {
		names = append(names, r.Name)
	}
	if got := s.Service.Turns(); !slices.Equal(got, names) {
		t.Errorf("verbs were answered by %v, want %v", got, names)
	}
}

// refusesVerbs checks that a replica answers every verb with 503 and ends the
// connection.
func refusesVerbs(t *testing.T, r *bed.Replica) {
	t.Helper()
	for verb, body := range map[string]string{"filter": anyFilter, "prioritize": anyFilter, "bind": anyBind, "preempt": anyVictim} {
		response := r.Post(verb, body)
		if response.StatusCode != http.StatusServiceUnavailable || !response.Close {
			t.Errorf("%s of a follower: %s, connection ended %v", verb, response.Status, response.Close)
		}
	}
}

// allBoundAfter waits until all are bound and says how long after a time the next
// one led, and how long after it no verb was answered.
func allBoundAfter(t *testing.T, s *bed.Scenario, what string, since time.Time, next *bed.Replica, pods ...*corev1.Pod) {
	t.Helper()
	bed.Eventually(t, 2*bed.Timeout, next.Name+" leads", func() error {
		return bed.Unless(next.Leads(), "it does not")
	})
	led := time.Since(since)
	s.AllBoundWithin(3*bed.Timeout, pods...)
	outage := s.Service.Outage(next.Name, since)
	if outage == 0 {
		t.Fatalf("%s answered nothing", next.Name)
	}
	t.Logf("OUTAGE %s: %v until the next one leads, %v until its first answer to kube-scheduler", what,
		led.Round(time.Millisecond), outage.Round(time.Millisecond))
}

// Both replicas are ready, one leads: it has the label and the metric, and the
// other refuses every verb. The label follows the leader, whoever edits it.
func TestOneOfTwoLeads(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(1).GPUs(8).Create()
	leader, follower := s.Leader()
	s.AllBound(s.Pod("one").GPUs(1).Create())
	if !leader.Ready() || !follower.Ready() {
		t.Errorf("ready: %v, %v", leader.Ready(), follower.Ready())
	}
	if leader.LeaderMetric() != 1 || follower.LeaderMetric() != 0 {
		t.Errorf("berth_leader is %v, %v", leader.LeaderMetric(), follower.LeaderMetric())
	}
	if holder := *s.Lease().Spec.HolderIdentity; !regexp.MustCompile("^" + leader.Name + "_").MatchString(holder) {
		t.Errorf("the Lease's holder is %s", holder)
	}
	refusesVerbs(t, follower)
	turns(t, s, leader)

	leader.Label(false)
	bed.Eventually(t, bed.Timeout, "the leader has its label again", func() error {
		return bed.Unless(leader.Labelled(), "it has not")
	})
	follower.Label(true)
	bed.Eventually(t, bed.Timeout, "the follower has lost the label", func() error {
		return bed.Unless(!follower.Labelled(), "it has it")
	})
}

// Ended in good order, the leader hands over at once: pods go on being bound, by
// one replica after the other.
func TestGracefulHandover(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(8).GPUs(8).Create()
	leader, follower := s.Leader()
	pods := s.Pod("p").GPUs(1).CreateN(56)
	bed.Eventually(t, bed.Timeout, "some are bound", func() error {
		return bed.Unless(s.Bound(pods...) >= 5, "%d bound", s.Bound(pods...))
	})
	gone := time.Now()
	leader.Signal(syscall.SIGTERM)
	if err := leader.Wait(); err != nil {
		t.Errorf("the leader ended with %v", err)
	}
	// The leader may have bound all the others until it ended: these remain for the follower.
	pods = append(pods, s.Pod("q").GPUs(1).CreateN(8)...)
	allBoundAfter(t, s, "release", gone, follower, pods...)
	turns(t, s, leader, follower)
	if leader.Labelled() || !follower.Labelled() {
		t.Errorf("labelled: %v, %v", leader.Labelled(), follower.Labelled())
	}

	// And back: the first one comes again under its old name, and follows.
	leader.Start()
	refusesVerbs(t, leader)
	more := s.Pod("more").GPUs(1).CreateN(2)
	s.NoneBound(more...)
	s.DeleteNow(pods[:2]...)
	s.AllBound(more...)
}

// Killed with gangs half bound, the leader is followed by one that completes them
// where they were planned, before anybody else gets that room.
func TestLeaderKilledWithGangsHalfBound(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2, Policy: racks})
	s.Nodes(4).GPUs(4).Create()
	leader, follower := s.Leader()
	hold := bed.NewHold()
	for gang, bound := range map[string]int{"a": 3, "b": 2} {
		s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: regexp.MustCompile("/pods/" + gang + "-[0-9]+/binding$"), Skip: bound, Do: hold.Action})
	}
	gangs := bed.Pods(s.Pod("a").GPUs(1).Gang("a", 8).Gated().CreateN(8), s.Pod("b").GPUs(1).Gang("b", 8).Gated().CreateN(8))
	bed.Eventually(t, bed.Timeout, "a part of both gangs is bound", func() error {
		return bed.Unless(s.Bound(gangs...) == 5 && hold.Waiting() > 0, "%d bound, %d held", s.Bound(gangs...), hold.Waiting())
	})
	planned := map[string]string{}
	for _, pod := range gangs {
		planned[pod.Name] = s.Nominated(pod)
	}
	competitors := s.Pod("c").GPUs(1).CreateN(8)

	killed := time.Now()
	leader.Signal(syscall.SIGKILL)
	s.Proxy.Clear() // what is held never takes effect: its client is dead
	_ = leader.Wait()
	allBoundAfter(t, s, "kill", killed, follower, gangs...)
	for _, pod := range gangs {
		if node := s.NodeOf(pod); node != planned[pod.Name] {
			t.Errorf("%s was planned on %q and runs on %q", pod.Name, planned[pod.Name], node)
		}
	}
	s.NoneBound(competitors...)
	turns(t, s, leader, follower)
	if leader.Labelled() {
		t.Error("the dead leader's Pod is still labelled")
	}
	s.DeleteNow(gangs...)
	s.AllBound(competitors...)
}

// A Lease that somebody takes ends the term though the process lives: parked
// binds fail at once, nothing is written any more, and when the Lease is free
// again the gang starts whole.
func TestLeaseTakenAway(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2, Policy: racks})
	s.Nodes(2).GPUs(4).Create()
	leader, follower := s.Leader()
	lastReleaseHeld(s, 8)
	gang := s.Pod("g").GPUs(1).Gang("g", 8).Gated().CreateN(8)
	bed.Eventually(t, bed.Timeout, "7 members are parked", func() error {
		return bed.Unless(s.Service.InFlight("bind") == 7, "%d are parked", s.Service.InFlight("bind"))
	})
	taken := time.Now()
	s.TakeLease("thief", 60)
	bed.Eventually(t, bed.Timeout, "no bind is parked any more", func() error {
		return bed.Unless(s.Service.InFlight("bind") == 0, "%d are parked", s.Service.InFlight("bind"))
	})
	failed := 0
	for _, a := range s.Service.Answers(leader.Name, taken) {
		if a.Verb == "bind" && a.Status == http.StatusServiceUnavailable && a.Closed {
			failed++
		}
	}
	if failed != 7 {
		t.Errorf("%d of 7 parked binds were answered with 503 and the end of the connection", failed)
	}
	bed.Eventually(t, bed.Timeout, "nobody leads", func() error {
		return bed.Unless(!leader.Labelled() && leader.LeaderMetric() == 0, "labelled %v", leader.Labelled())
	})
	refusesVerbs(t, leader)
	refusesVerbs(t, follower)
	s.Proxy.Clear()
	s.NoneBound(gang...)

	s.TakeLease("", 1)
	s.AllBoundWithin(2*bed.Timeout, gang...)
	if !leader.Ready() || !follower.Ready() {
		t.Error("a replica is not ready any more")
	}
}

// boundNames lists the pods of the Bindings that a replica sends from now on.
func boundNames(r *bed.Replica) func() []string {
	var mutex sync.Mutex
	var names []string
	r.Writes(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Do: bed.Fail(http.StatusInternalServerError),
		Match: func(request *http.Request, _ []byte) bool {
			mutex.Lock()
			defer mutex.Unlock()
			names = append(names, filepath.Base(filepath.Dir(request.URL.Path)))
			return false
		}})
	return func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(names)
	}
}

// A leader that can read and bind, but whose renewals do not get through, stops
// by its own clock before another one begins, and follows that one.
func TestRenewalsBlocked(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(16).GPUs(8).Create()
	leader, follower := s.Leader()
	hold := bed.NewHold()
	blocked := time.Now()
	leader.Writes(&bed.Rule{Method: http.MethodPut, Path: leasePath, Do: hold.Action})
	var pods []*corev1.Pod
	for i := 0; leader.LeaderMetric() == 1; i++ {
		if i < 100 {
			pods = append(pods, s.Pod(fmt.Sprintf("before-%d", i)).GPUs(1).Create())
		}
		s.Marker()
	}
	t.Logf("OUTAGE blocked: the old leader stopped after %v", time.Since(blocked).Round(time.Millisecond))
	late := boundNames(leader)
	refusesVerbs(t, leader)
	pods = append(pods, s.Pod("after").GPUs(1).CreateN(8)...)
	allBoundAfter(t, s, "blocked", blocked, follower, pods...)
	if names := late(); len(names) != 0 {
		t.Errorf("Bindings after the deadline: %v", names)
	}
	turns(t, s, leader, follower)
	hold.Release()
	s.Proxy.Clear()
	if !leader.Ready() || leader.LeaderMetric() != 0 || follower.LeaderMetric() != 1 {
		t.Error("the old leader does not follow")
	}
	s.StayBound(pods...)
}

// A leader that is frozen under load and wakes up when another one leads decides
// nothing, and refuses verbs before it does anything else. What nobody can help: a
// Binding that it was about to send still goes out, and each call on a connection
// that kube-scheduler keeps to it lasts a httpTimeout.
func TestLeaderFrozenUnderLoad(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2, HTTPTimeout: 5 * time.Second})
	s.Nodes(8).GPUs(8).Create()
	leader, follower := s.Leader()
	pods := s.Pod("p").GPUs(1).CreateN(40)
	bed.Eventually(t, bed.Timeout, "some are bound", func() error {
		return bed.Unless(s.Bound(pods...) >= 5, "%d bound", s.Bound(pods...))
	})
	frozen := time.Now()
	leader.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { leader.Signal(syscall.SIGCONT) })
	allBoundAfter(t, s, "freeze", frozen, follower, pods...)
	bed.Eventually(t, bed.Timeout, "the frozen leader's label is taken off", func() error {
		return bed.Unless(!leader.Labelled(), "it is there")
	})

	late := boundNames(leader)
	more := s.Pod("more").GPUs(1).CreateN(16)
	leader.Signal(syscall.SIGCONT)
	refusesVerbs(t, leader)
	s.AllBound(more...)
	for _, pod := range s.Pod("over").GPUs(1).CreateN(12) { // 8 of them fit
		pods = append(pods, pod)
	}
	bed.Eventually(t, bed.Timeout, "the cluster is full", func() error {
		return bed.Unless(s.Bound(bed.Pods(pods, more)...) == 64, "%d of 64 bound", s.Bound(bed.Pods(pods, more)...))
	})
	// One that looked at the clock before the freeze and sends after it cannot be told
	// by any process; the API server refuses it where the new leader has bound the pod.
	// More than such a one, or one of a pod that is newer than the freeze, is a fault.
	names := late()
	if len(names) > 2 || slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "p-") }) {
		t.Errorf("Bindings by the old leader: %v", names)
	}
	turns(t, s, leader, follower)
	if !leader.Ready() || leader.LeaderMetric() != 0 {
		t.Error("the old leader does not follow")
	}
}

// hang stops the thread of a replica that plans, as a lock that is never given
// back would, until the test ends; the others go on, the one that renews the Lease
// among them.
func hang(t *testing.T, r *bed.Replica) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", r.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		name, err := os.ReadFile(task)
		if err != nil || strings.TrimSpace(string(name)) != "planner" {
			continue
		}
		tid, err := strconv.Atoi(filepath.Base(filepath.Dir(task)))
		if err != nil {
			t.Fatal(err)
		}
		attached, release := make(chan error), make(chan struct{})
		var released sync.WaitGroup
		released.Add(1)
		go func() {
			defer released.Done()
			runtime.LockOSThread() // the tracer is a thread
			defer runtime.UnlockOSThread()
			err := syscall.PtraceAttach(tid)
			attached <- err
			if err != nil {
				return
			}
			<-release
			_ = syscall.PtraceDetach(tid)
		}()
		if err := <-attached; err != nil {
			t.Fatalf("this machine lets nobody trace its own children: %v", err)
		}
		t.Cleanup(func() {
			close(release)
			released.Wait()
		})
		return
	}
	t.Fatal("no thread is called planner")
}

// An engine that hangs, in a process that otherwise lives, is noticed after 15 s:
// its liveness fails, so that a kubelet restarts it, and the Lease is let go, so that
// the other one leads within another term.
func TestLeaderThatHangs(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(2).GPUs(8).Create()
	leader, follower := s.Leader()
	s.AllBound(s.Pod("before").GPUs(1).Create())
	hung := time.Now()
	hang(t, leader)
	bed.Eventually(t, time.Minute, "it is not alive", func() error {
		return bed.Unless(!leader.Alive(), "livez says that it is")
	})
	t.Logf("HANG %v until livez fails", time.Since(hung).Round(time.Millisecond))
	bed.Eventually(t, time.Minute, "the other one leads", func() error {
		return bed.Unless(follower.Leads(), "it does not")
	})
	t.Logf("HANG %v until the other one leads", time.Since(hung).Round(time.Millisecond))
	s.AllBound(s.Pod("after").GPUs(1).CreateN(8)...)
	turns(t, s, leader, follower)
}

// A Lease that is deleted stays with the leader: no verb goes unanswered, and no
// other one takes it.
func TestLeaseDeleted(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(2).GPUs(8).Create()
	leader, _ := s.Leader()
	s.DeleteLease()
	bed.Eventually(t, bed.Timeout, "the Lease is there again", func() error {
		_, err := s.Client.CoordinationV1().Leases(bed.SystemNamespace).Get(s.Context(), "berth", bed.GetOptions)
		return err
	})
	s.AllBound(s.Pod("p").GPUs(2).CreateN(8)...)
	turns(t, s, leader)
}

package suite

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

const departments = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
queues:
- name: science
- name: lab
  parent: science
  namespaces: [team-a]
`

// used reads the GPU-seconds of queue lab and of its users; it fails if a queue
// above it says otherwise.
func used(t *testing.T, s *bed.Scenario) (queue float64, users map[string]float64) {
	t.Helper()
	type seconds map[string]float64
	var page struct {
		Items []struct {
			Name          string
			DeviceSeconds seconds
			Users         []struct {
				User          string
				DeviceSeconds seconds
			}
		}
	}
	if err := json.Unmarshal(s.Get("/api/v1/queues?namespaces=true"), &page); err != nil {
		t.Fatal(err)
	}
	users = map[string]float64{}
	for _, item := range page.Items {
		if item.Name == "science" {
			defer func(science float64) {
				if science != queue {
					t.Errorf("science has used %v, and lab below it %v", science, queue)
				}
			}(item.DeviceSeconds[bed.GPU])
			continue
		}
		queue = item.DeviceSeconds[bed.GPU]
		for _, user := range item.Users {
			users[user.User] = user.DeviceSeconds[bed.GPU]
		}
	}
	return queue, users
}

// boundSince is when the API server made the pod's Binding.
func boundSince(s *bed.Scenario, pod *corev1.Pod) time.Time {
	for _, condition := range s.Now(pod).Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Now()
}

// What queues and users have used goes on over a restart in good order and over a
// crash; of what runs on, the time without Berth counts too.
func TestUsageGoesOnOverRestarts(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: departments})
	s.Namespace("team-a")
	s.Nodes(1).GPUs(8).Create()
	stays := s.Pod("stays").Namespace("team-a").GPUs(2).Label("berth.dev/user", "ann").Gated().Create()
	ends := s.Pod("ends").Namespace("team-a").GPUs(4).Label("berth.dev/user", "bob").Gated().Create()
	s.AllBound(stays, ends)
	since := boundSince(s, stays)
	bed.Eventually(t, bed.Timeout, "some seconds are counted", func() error {
		_, users := used(t, s)
		return bed.Unless(users["ann"] >= 4 && users["bob"] >= 8, "used: %v", users)
	})
	s.DeleteNow(ends)
	s.AllGone(ends)
	s.Marker() // Berth has seen it
	_, before := used(t, s)

	s.StopBerth()
	kept, err := s.Client.CoreV1().ConfigMaps(bed.SystemNamespace).Get(s.Context(), "berth-usage", metav1.GetOptions{})
	if err != nil || !strings.Contains(kept.Data["usage.json"], `"user":"bob"`) {
		t.Fatalf("what is kept: %v, %v", kept.Data, err)
	}
	s.StartBerth()
	restarted := 0.0
	goesOn := func(what string) {
		bed.Eventually(t, bed.Timeout, what, func() error {
			queue, users := used(t, s)
			// 2 GPUs since then. Times of conditions are whole seconds.
			ann := 2 * (time.Since(since).Seconds() - 2)
			if err := bed.Unless(users["ann"] >= ann && users["bob"] >= before["bob"] && users["bob"] < before["bob"]+4,
				"ann has used %v of %v, bob %v of %v", users["ann"], ann, users["bob"], before["bob"]); err != nil {
				return err
			}
			metric, found := s.Metrics().Sum("berth_queue_device_seconds_total", `queue="lab"`)
			if err := bed.Unless(found && metric >= restarted, "the counter is %v after %v", metric, restarted); err != nil {
				return err
			}
			restarted = metric
			return bed.Unless(queue >= metric-1, "the counter is ahead: %v, the page says %v", metric, queue)
		})
	}
	goesOn("the numbers go on after a restart")
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	goesOn("the numbers go on after a crash")
}

// The next leader goes on where the one before it stopped.
func TestUsageGoesOnAtTheNextLeader(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: departments, Replicas: 2})
	s.Namespace("team-a")
	s.Nodes(1).GPUs(8).Create()
	leader, _ := s.Leader()
	pod := s.Pod("p").Namespace("team-a").GPUs(4).Gated().Create()
	ended := s.Pod("ended").Namespace("team-a").GPUs(4).Label("berth.dev/user", "bob").Gated().Create()
	s.AllBound(pod, ended)
	since := boundSince(s, pod)
	bed.Eventually(t, bed.Timeout, "some seconds are counted", func() error {
		_, users := used(t, s)
		return bed.Unless(users["bob"] >= 8, "used: %v", users)
	})
	s.DeleteNow(ended)
	s.AllGone(ended)
	_, before := used(t, s)
	leader.Signal(syscall.SIGTERM)
	if err := leader.Wait(); err != nil {
		t.Errorf("the leader ended with %v", err)
	}
	s.AllBound(s.Pod("next").Namespace("team-a").GPUs(1).Gated().Create()) // by the next one
	bed.Eventually(t, bed.Timeout, "the numbers go on", func() error {
		queue, users := used(t, s)
		all := 4*(time.Since(since).Seconds()-2) + before["bob"]
		if err := bed.Unless(users["bob"] >= before["bob"] && queue >= all, "bob has used %v of %v, all %v of %v", users["bob"], before["bob"], queue, all); err != nil {
			return err
		}
		metric, found := s.Metrics().Sum("berth_user_device_seconds_total", `user="bob"`)
		return bed.Unless(found && metric >= before["bob"], "bob's counter is %v", metric)
	})
}

// A ConfigMap that says what cannot be true stops nothing.
func TestUsageThatCannotBeRead(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: departments})
	s.Namespace("team-a")
	s.Nodes(1).GPUs(8).Create()
	s.StopBerth()
	maps := s.Client.CoreV1().ConfigMaps(bed.SystemNamespace)
	_ = maps.Delete(s.Context(), "berth-usage", metav1.DeleteOptions{})
	hostile := `{"until": -1, "queues": [{"queue": "lab", "deviceMilliseconds": {"nvidia.com/gpu": 7000, "x": -3}},
		{"queue": "science", "deviceMilliseconds": {"nvidia.com/gpu": 7000}}, 5], "users": "no"}`
	if _, err := maps.Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "berth-usage"},
		Data:       map[string]string{"usage.json": hostile},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.StartBerth()
	pod := s.Pod("p").Namespace("team-a").GPUs(2).Gated().Create()
	s.AllBound(pod)
	bed.Eventually(t, bed.Timeout, "what can be read is, and counting goes on", func() error {
		queue, _ := used(t, s)
		return bed.Unless(queue > 7, "lab has used %v", queue)
	})
	if log := s.BerthLog(); !strings.Contains(log, "cannot be read: it is left out") {
		t.Error("the log does not say that something was left out")
	}
}

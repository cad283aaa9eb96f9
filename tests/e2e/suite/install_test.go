package suite

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// The verbs over TLS: the stock scheduler verifies Berth's certificate, and a
// gang starts as it does over plain HTTP.
func TestVerbsOverTLS(t *testing.T) {
	cert, key := control.ServingPair()
	s := control.Scenario(t, bed.Options{
		Flags: []string{"--tls-cert-file", cert, "--tls-private-key-file", key},
		Extenders: func(url string) []configv1.Extender {
			e := bed.BerthExtender(strings.Replace(url, "http:", "https:", 1), bed.Options{})
			e.HTTPTimeout = metav1.Duration{Duration: 30e9}
			e.EnableHTTPS = true
			e.TLSConfig = &configv1.ExtenderTLSConfig{CAData: control.ServingCA()}
			return []configv1.Extender{e}
		},
	})
	s.Nodes(2).GPUs(8).Create()
	s.AllBound(s.Pod("g").GPUs(2).Gang("g", 8).Gated().CreateN(8)...)
}

// policyMap is where TestPolicyFromAConfigMap keeps the policy.
func policyMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "berth-policy", Namespace: bed.SystemNamespace},
		Data:       map[string]string{"policy.yaml": text},
	}
}

// A policy in a ConfigMap is read at the start and taken again when it changes;
// a bad version is refused, said to be bad by metric and Event, and survived by
// a restart.
func TestPolicyFromAConfigMap(t *testing.T) {
	maps := control.Client.CoreV1().ConfigMaps(bed.SystemNamespace)
	ctx := t.Context()
	update := func(text string) {
		t.Helper()
		if _, err := maps.Update(ctx, policyMap(text), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := control.Scenario(t, bed.Options{
		Flags: []string{"--policy-configmap", bed.SystemNamespace + "/berth-policy"},
		Prepare: func(*bed.Scenario) {
			if _, err := maps.Create(ctx, policyMap(limited(4)), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	})
	s.Namespace("team-a")
	s.Namespace("team-b")
	s.Nodes(2).GPUs(8).Create()
	s.AllBound(s.Pod("first").Namespace("team-a").GPUs(4).Create())
	next := s.Pod("next").Namespace("team-a").GPUs(4).Create()
	s.NoneBound(next)

	update(limited(8) + "queeus: []\n")
	reloadSuccessful(t, s, 0)
	bed.Eventually(t, bed.Timeout, "an Event says so", func() error {
		events, err := s.Client.EventsV1().Events(bed.SystemNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "PolicyRefused" && strings.Contains(e.Note, "queeus") {
				return nil
			}
		}
		return bed.Unless(false, "%d events, none of them PolicyRefused", len(events.Items))
	})
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	s.NoneBound(next)

	update(limited(8))
	s.AllBound(next)
}

// A policy that is deleted changes nothing but the metric, not over a restart
// either; made again with the same text, it is in force again.
func TestPolicyConfigMapDeleted(t *testing.T) {
	maps := control.Client.CoreV1().ConfigMaps(bed.SystemNamespace)
	create := func() {
		t.Helper()
		if _, err := maps.Create(t.Context(), policyMap(limited(4)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := control.Scenario(t, bed.Options{
		Flags:   []string{"--policy-configmap", bed.SystemNamespace + "/berth-policy"},
		Prepare: func(*bed.Scenario) { create() },
	})
	s.Namespace("team-a")
	s.Namespace("team-b")
	s.Nodes(2).GPUs(8).Create()
	s.AllBound(s.Pod("first").Namespace("team-a").GPUs(4).Create())
	next := s.Pod("next").Namespace("team-a").GPUs(4).Create()

	if err := maps.Delete(t.Context(), "berth-policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	reloadSuccessful(t, s, 0)
	s.NoneBound(next)
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	reloadSuccessful(t, s, 0)
	s.NoneBound(next)

	create()
	reloadSuccessful(t, s, 1)
	s.NoneBound(next)

	// Where none has been kept either, there is nothing to start with.
	out, code := s.TryBerth("serve", "--kubeconfig", "ADMIN", "--policy-configmap", "default/berth-policy", "--leader-elect-namespace", "default",
		"--listen", fmt.Sprintf("127.0.0.1:%d", s.FreePort()), "--ops-listen", fmt.Sprintf("127.0.0.1:%d", s.FreePort()))
	if code != 1 || !strings.Contains(out, "default/berth-policy does not exist; create it first") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// The whole install: Jobs gated by the shipped admission policy start as gangs.
func TestGatedByTheAdmissionPolicy(t *testing.T) {
	s := control.Scenario(t, bed.Options{Controllers: true})
	s.Nodes(2).GPUs(8).Create()
	admissionGate(t, s)
	job := s.Pod("train").GPUs(4).Gang("train", 4).Queue("default").Job(4)
	s.JobSucceeds(job)
}

// Break-glass without a running service: the gates go, kube-scheduler takes the
// pods as they are.
func TestUngateAll(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	s.Nodes(1).GPUs(8).Create()
	pods := s.Pod("p").GPUs(1).Gang("g", 100).Gated().CreateN(3)
	out := s.RunBerth("ungate", "--all", "--kubeconfig", "ADMIN")
	if !strings.Contains(out, "3 pod(s) ungated, 0 failed") {
		t.Errorf("it says %q", out)
	}
	s.AllBound(pods...)
}

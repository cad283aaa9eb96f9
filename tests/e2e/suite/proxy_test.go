package suite

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// outside is an address of this machine that is not loopback: the API server
// proxies to no other.
func outside(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Fatalf("no IPv4 address but loopback in %v", addresses)
	return ""
}

// behindService makes the Service berth lead to a port of this machine.
func behindService(t *testing.T, s *bed.Scenario, ip string, port int) {
	t.Helper()
	ctx, core := s.Context(), s.Client.CoreV1()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "berth"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "ops", Port: 9090}}}}
	if _, err := core.Services(bed.SystemNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// It believes an address that is a pod's.
	pod := s.Pod("host").Namespace(bed.SystemNamespace).On("node-000").Create()
	pod.ResourceVersion = "" // whatever else was written to it
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	pod, err := core.Pods(bed.SystemNamespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to := &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "berth"}, Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // what the proxy reads
		Addresses: []corev1.EndpointAddress{{IP: ip, TargetRef: to}},
		Ports:     []corev1.EndpointPort{{Name: "ops", Port: int32(port)}},
	}}}
	if _, err := core.Endpoints(bed.SystemNamespace).Create(ctx, endpoints, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// withPlugin is the kubeconfig with its user's token out of an exec plug-in, as
// those of cloud providers have it.
func withPlugin(t *testing.T, kubeconfig string) string {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`token: ([^\s}]+)`).FindSubmatch(text)
	if token == nil {
		t.Fatalf("no token in %s", kubeconfig)
	}
	const version = "client.authentication.k8s.io/v1"
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = get-token ] || exit 2\n"+
		`echo '{"kind": "ExecCredential", "apiVersion": "%s", "status": {"token": "%s"}}'`+"\n", version, token[1])
	exec := fmt.Sprintf("exec: {apiVersion: %s, command: ./plugin, args: [get-token], interactiveMode: Never}", version)
	dir := t.TempDir()
	out := filepath.Join(dir, "kubeconfig")
	for path, content := range map[string]string{
		filepath.Join(dir, "plugin"): script,
		out:                          strings.Replace(string(text), string(token[0]), exec, 1),
	} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// With a kubeconfig alone the commands go through the API server: the shipped Role
// lets them, and Berth still shows each what is theirs.
func TestThroughTheAPIServersProxy(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.StopBerth()
	s.Nodes(1).GPUs(8).Create()
	s.Namespace("team-a")
	ip, ops := outside(t), s.FreePort()
	certificate, key := control.ServingPair()
	s.Container("berth-behind", []string{"serve", "--leader-elect=false", fmt.Sprintf("--listen=127.0.0.1:%d", s.FreePort()),
		fmt.Sprintf("--ops-listen=%s:%d", ip, ops), "--ops-auth=kubernetes",
		"--ops-tls-cert-file=" + certificate, "--ops-tls-private-key-file=" + key}).
		Start(s.Berth(), fmt.Sprintf("https://%s:%d/readyz", ip, ops), "--kubeconfig", s.AdminKubeconfig())
	behindService(t, s, ip, ops)
	s.Pod("p").Namespace("team-a").GPUs(1).Gang("ga", 2).Create()
	kubeconfig := s.Account("team-a", "researcher").MayIn("team-a", reader).Kubeconfig()

	out, code := s.TryBerth("queues", "--kubeconfig", kubeconfig)
	if code != 1 || !strings.Contains(out, `cannot get resource "services/proxy"`) || !strings.Contains(out, "Role berth-proxy") {
		t.Errorf("without the Role: %d %s", code, out)
	}
	var role rbacv1.Role
	find(t, baseFolder+"/ops-access.yaml", "Role", &role)
	rbac := s.Client.RbacV1()
	// The bed has it, unless a test that uninstalls has been before.
	if _, err := rbac.Roles(role.Namespace).Create(s.Context(), &role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}}}
	if _, err := rbac.RoleBindings(role.Namespace).Create(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = rbac.RoleBindings(role.Namespace).Delete(s.Context(), role.Name, metav1.DeleteOptions{})
	})
	bed.Eventually(t, bed.Timeout, "the Role is in force", func() error {
		out, code := s.TryBerth("queues", "--kubeconfig", kubeconfig)
		return bed.Unless(code == 0 && strings.Contains(out, "default"), "%d %s", code, out)
	})
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"why team-a/p", 0, "WaitingForMembers"},
		{"gangs -n team-a", 0, "ga"},
		{"queues -n team-a", 0, "default"},
		{"gangs", 1, `cannot list resource "pods" in all namespaces`},
		{"queues -o wide", 1, `cannot list resource "pods" in all namespaces`},
		{"why team-b/q", 1, `cannot get resource "pods" in the namespace "team-b"`},
		{"queues --service berth-system/https:none:ops", 1, "Role berth-proxy"},
	} {
		out, code := s.TryBerth(append(strings.Fields(c.args), "--kubeconfig", kubeconfig)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: %d, want %d and %q: %s", c.args, code, c.code, c.says, out)
		}
	}

	out, code = s.TryBerth("why", "team-a/p", "--kubeconfig", withPlugin(t, kubeconfig))
	if code != 0 || !strings.Contains(out, "WaitingForMembers") {
		t.Errorf("with a token from an exec plug-in: %d %s", code, out)
	}
}

// Package bed runs Berth against a real control plane: etcd, kube-apiserver and
// kube-scheduler (kube-controller-manager where a test needs it) on
// loopback ports, with a proxy before the API server through which tests
// inject faults into what Berth sees.
//
// One Bed serves a whole test binary; every test takes a Scenario from it,
// which starts from an empty cluster with a scheduler and a Berth of its own.
package bed

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// SystemNamespace is where Berth keeps its own objects.
	SystemNamespace = "berth-system"

	// berthUser is the identity that Berth has in a cluster; its rights come
	// from the shipped RBAC objects only.
	berthUser = "system:serviceaccount:" + SystemNamespace + ":berth"

	// Kubernetes' own programs have the identities and rights that the API server
	// gives them by default.
	schedulerUser  = "system:kube-scheduler"
	controllerUser = "system:kube-controller-manager"
)

// Bed is the running control plane.
type Bed struct {
	// Client has all rights and goes straight to the API server.
	Client kubernetes.Interface
	// Proxy stands between Berth and the API server.
	Proxy *Proxy

	dir             string // logs and files; kept when a test failed
	programs        string // folder of the control plane's programs
	ca              *authority
	adminToken      string
	berthToken      string
	schedulerToken  string
	controllerToken string
	apiPort         int
	apiFlags        []string
	etcdPort        int

	etcd       *Process
	apiserver  *Process
	controller *Process
}

// Start brings up etcd and the API server, and installs Berth's RBAC objects.
// The flags are the API server's, besides the usual ones.
func Start(flags ...string) (b *Bed, err error) {
	programs, err := programFolder()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "berth-e2e-")
	if err != nil {
		return nil, err
	}
	b = &Bed{dir: dir, programs: programs, adminToken: newToken(), berthToken: newToken(),
		schedulerToken: newToken(), controllerToken: newToken(), apiFlags: flags}
	defer func() {
		if err != nil {
			b.Close(true)
		}
	}()

	if b.ca, err = newAuthority(dir); err != nil {
		return nil, err
	}
	if err = b.startEtcd(); err != nil {
		return nil, err
	}
	if b.apiPort, err = freePort(); err != nil {
		return nil, err
	}
	if err = b.writeAPIServerFiles(); err != nil {
		return nil, err
	}
	if b.Client, err = kubernetes.NewForConfig(b.adminConfig()); err != nil {
		return nil, err
	}
	if err = b.startAPIServer(); err != nil {
		return nil, err
	}
	if b.Proxy, err = newProxy(b.apiURL(), b.ca); err != nil {
		return nil, err
	}
	for _, user := range []struct{ name, server, token string }{
		{"admin", b.apiURL(), b.adminToken},
		{"berth", b.Proxy.URL(), b.berthToken},
		{"scheduler", b.apiURL(), b.schedulerToken},
		{"controllers", b.apiURL(), b.controllerToken},
	} {
		if _, err = b.writeKubeconfig(user.name, user.server, user.token); err != nil {
			return nil, err
		}
	}
	return b, b.installRBAC(context.Background())
}

// Close ends everything. The folder with logs is removed unless keep is set.
func (b *Bed) Close(keep bool) {
	if b == nil {
		return
	}
	b.controller.Kill()
	if b.Proxy != nil {
		b.Proxy.close()
	}
	b.apiserver.Kill()
	b.etcd.Kill()
	if keep {
		fmt.Fprintf(os.Stderr, "logs of the test bed: %s\n", b.dir)
		return
	}
	_ = os.RemoveAll(b.dir)
}

// Dir is the folder with the logs of all processes.
func (b *Bed) Dir() string { return b.dir }

// programFolder finds the control plane: BERTH_CONTROL_PLANE, else where
// build-control-plane leaves the default release.
func programFolder() (string, error) {
	folder := os.Getenv("BERTH_CONTROL_PLANE")
	if folder == "" {
		cache := os.Getenv("BERTH_CACHE")
		if cache == "" {
			user, err := os.UserCacheDir()
			if err != nil {
				return "", err
			}
			cache = filepath.Join(user, "berth")
		}
		folder = filepath.Join(cache, "control-plane", defaultKubernetes)
	}
	for _, program := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "jobset"} {
		if _, err := os.Stat(filepath.Join(folder, program)); err != nil {
			return "", fmt.Errorf("no control plane (run tests/e2e/build-control-plane, or set BERTH_CONTROL_PLANE): %w", err)
		}
	}
	return folder, nil
}

// defaultKubernetes is the release that controlplane/kubernetes/go.mod pins.
const defaultKubernetes = "v1.36.3"

func newToken() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}

func (b *Bed) program(name string) string { return filepath.Join(b.programs, name) }
func (b *Bed) file(name string) string    { return filepath.Join(b.dir, name) }
func (b *Bed) apiURL() string             { return Loopback("https", b.apiPort, "") }

func (b *Bed) adminConfig() *rest.Config {
	return &rest.Config{
		Host:            b.apiURL(),
		BearerToken:     b.adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: b.ca.pem},
		QPS:             -1, // the test itself must never be what is slow
	}
}

func (b *Bed) startEtcd() (err error) {
	if b.etcdPort, err = freePort(); err != nil {
		return err
	}
	peerPort, err := freePort()
	if err != nil {
		return err
	}
	client := Loopback("http", b.etcdPort, "")
	peer := Loopback("http", peerPort, "")
	b.etcd, err = startProcess(b.dir, "etcd", b.program("etcd"),
		"--data-dir="+b.file("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer)
	if err != nil {
		return err
	}
	return b.etcd.waitReady(Timeout, func() error {
		_, err := get(client + "/readyz")
		return err
	})
}

// writeAPIServerFiles writes what the API server reads at every start.
func (b *Bed) writeAPIServerFiles() error {
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n%s,%s,berth,\"system:serviceaccounts,system:serviceaccounts:%s,system:authenticated\"\n",
		b.adminToken, b.berthToken, berthUser, SystemNamespace)
	tokens += fmt.Sprintf("%s,%s,scheduler\n%s,%s,controllers\n",
		b.schedulerToken, schedulerUser, b.controllerToken, controllerUser)
	if err := os.WriteFile(b.file("tokens.csv"), []byte(tokens), 0o600); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(b.file("service-account.key"), pem.EncodeToMemory(block), 0o600)
}

// startAPIServer starts the API server and waits until it serves the default
// namespace.
func (b *Bed) startAPIServer() (err error) {
	services := []string{"--service-cluster-ip-range=10.96.0.0/12"} // kubeadm's default
	if IPv6() {
		// What the Service `kubernetes` leads to, which nobody uses here; with no interface
		// but loopback the API server finds none by itself.
		services = []string{"--service-cluster-ip-range=fd00:10:96::/108", "--advertise-address=fd00::1"}
	}
	b.apiserver, err = startProcess(b.dir, "kube-apiserver", b.program("kube-apiserver"), append([]string{
		"--etcd-servers=" + Loopback("http", b.etcdPort, ""),
		fmt.Sprintf("--secure-port=%d", b.apiPort),
		"--bind-address=" + loopback,
		"--tls-cert-file=" + b.ca.certFile, "--tls-private-key-file=" + b.ca.keyFile,
		"--token-auth-file=" + b.file("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=" + ServiceAccountIssuer,
		"--service-account-key-file=" + b.file("service-account.key"),
		"--service-account-signing-key-file=" + b.file("service-account.key"),
		// Nothing creates service accounts here, and the plug-in would refuse
		// every pod for want of one.
		"--disable-admission-plugins=ServiceAccount",
		"--shutdown-delay-duration=0s"}, append(services, b.apiFlags...)...)...)
	if err != nil {
		return err
	}
	return b.apiserver.waitReady(2*Timeout, func() error {
		if _, err := get(b.apiURL() + "/readyz"); err != nil {
			return err
		}
		_, err := b.Client.CoreV1().Namespaces().Get(context.Background(), metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

// RestartAPIServer ends the API server at once and brings it back on the same
// port, from the same etcd.
func (b *Bed) RestartAPIServer() error {
	b.apiserver.Kill()
	return b.startAPIServer()
}

// startControllers runs the controllers that make Jobs and DaemonSets work, and
// some more, once per bed.
func (b *Bed) startControllers(more ...string) error {
	if b.controller != nil {
		return nil
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	b.controller, err = startProcess(b.dir, "kube-controller-manager", b.program("kube-controller-manager"),
		"--kubeconfig="+b.file("controllers.kubeconfig"),
		"--controllers="+strings.Join(append(more, "job-controller", "daemonset-controller",
			"garbage-collector-controller", "pod-garbage-collector-controller", "disruption-controller"), ","),
		"--leader-elect=false",
		"--use-service-account-credentials", // each controller with its own rights
		"--service-account-private-key-file="+b.file("service-account.key"),
		"--bind-address="+loopback, fmt.Sprintf("--secure-port=%d", port),
		"--kube-api-qps=1000", "--kube-api-burst=1000")
	if err != nil {
		return err
	}
	return b.controller.waitReady(Timeout, func() error {
		_, err := get(Loopback("https", port, "/healthz"))
		return err
	})
}

func (b *Bed) stopControllers() {
	b.controller.Kill()
	b.controller = nil
}

// writeKubeconfig writes NAME.kubeconfig and returns its path.
func (b *Bed) writeKubeconfig(name, server, token string) (string, error) {
	path := b.file(name + ".kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: bed
clusters:
- name: bed
  cluster:
    server: %s
    certificate-authority: %s
contexts:
- name: bed
  context: {cluster: bed, user: %s}
users:
- name: %s
  user:
    token: %s
`, server, b.ca.certFile, name, name, token)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// ServingPair returns the files of a certificate for the loopback address and
// its key; the certificate is its own authority.
func (b *Bed) ServingPair() (cert, key string) { return b.ca.certFile, b.ca.keyFile }

// ServingCA returns what clients of that certificate must trust.
func (b *Bed) ServingCA() []byte { return b.ca.pem }

package bed

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Render does what `kubectl kustomize` does.
func Render(folder string) ([]byte, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	return rendered.AsYaml()
}

// Container runs the only container of a pod as a process: there is no kubelet
// here to run it. Its paths and ports are replaced, all else is as shipped.
type Container struct {
	s    *Scenario
	name string
	args []string
	env  []string
}

// Container takes a container's arguments. replace is pairs of texts in them and
// what stands for them here.
func (s *Scenario) Container(name string, args []string, replace ...string) *Container {
	s.T.Helper()
	text := s.Replace(name, strings.Join(args, "\n"), replace...)
	return &Container{s: s, name: name, args: strings.Split(text, "\n")}
}

// Replace puts other texts in the place of some, which must all occur.
func (s *Scenario) Replace(where, text string, pairs ...string) string {
	s.T.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			s.T.Fatalf("%s: no %q in %q", where, pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// Env sets variables, NAME=value.
func (c *Container) Env(variables ...string) *Container {
	c.env = append(c.env, variables...)
	return c
}

// Start runs a program with the container's arguments and some more, until the
// test ends, and waits until it answers at url.
func (c *Container) Start(program, url string, more ...string) {
	c.s.T.Helper()
	args := append(append(append([]string{}, c.env...), program), append(c.args, more...)...)
	process, err := startProcess(c.s.dir, c.name, "/usr/bin/env", args...)
	must(c.s.T, err)
	c.s.T.Cleanup(func() {
		if c.s.T.Failed() {
			c.s.T.Logf("%s ends:\n%s", c.name, tail(process.log, 4000))
		}
		process.Kill()
	})
	must(c.s.T, process.waitReady(Timeout, func() error {
		_, err := get(url)
		return err
	}))
}

// Berth is the program in its image.
func (s *Scenario) Berth() string {
	path, err := berthBinary()
	must(s.T, err)
	return path
}

// KubeScheduler is the program in its image.
func (s *Scenario) KubeScheduler() string { return s.bed.program("kube-scheduler") }

// FreePort is a loopback port.
func (s *Scenario) FreePort() int {
	port, err := freePort()
	must(s.T, err)
	return port
}

// FreeAddress is HOST:PORT of a free loopback port, for tests that need it before their scenario.
func FreeAddress(t *testing.T) string {
	port, err := freePort()
	must(t, err)
	return Address(port)
}

// Ports are those that the scenario's own URLs mean: for the verbs, and for
// operations.
func (s *Scenario) Ports() (verbs, ops int) { return s.verbPort, s.opsPort }

// WriteFile writes a file of the test's and returns its path.
func (s *Scenario) WriteFile(name, text string) string {
	s.T.Helper()
	path := filepath.Join(s.dir, name)
	must(s.T, os.MkdirAll(filepath.Dir(path), 0o755))
	must(s.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// AdminKubeconfig is the administrator's, straight to the API server.
func (s *Scenario) AdminKubeconfig() string { return s.bed.file("admin.kubeconfig") }

// Helm runs Helm with files of its own, as the cluster's administrator where
// there is a scenario, and returns what it prints.
func (b *Bed) Helm(s *Scenario, arguments ...string) (out string, err error) {
	home := filepath.Join(b.dir, "helm")
	command := exec.Command(b.program("helm"), arguments...)
	command.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	if s != nil {
		command.Env = append(command.Env, "KUBECONFIG="+s.AdminKubeconfig())
	}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		err = fmt.Errorf("helm %s: %w: %s", strings.Join(arguments, " "), err, stderr.Bytes())
	}
	return string(stdout), err
}

// SchedulerKubeconfig is that of the cluster's own kube-scheduler.
func (s *Scenario) SchedulerKubeconfig() string { return s.bed.file("scheduler.kubeconfig") }

// AccountToken is a token of a ServiceAccount.
func (s *Scenario) AccountToken(namespace, name string) string {
	s.T.Helper()
	token, err := s.accountToken(namespace, name)
	must(s.T, err)
	return token
}

func (s *Scenario) accountToken(namespace, name string) (string, error) {
	token, err := s.Client.CoreV1().ServiceAccounts(namespace).CreateToken(s.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// AccountKubeconfig is a kubeconfig with a ServiceAccount's token, as its pods
// have it.
func (s *Scenario) AccountKubeconfig(namespace, name string) string {
	s.T.Helper()
	path, err := s.accountKubeconfig(namespace, name, namespace+"."+name, s.bed.apiURL())
	must(s.T, err)
	return path
}

// accountKubeconfig writes FILE.kubeconfig, for a server, with such a token.
func (s *Scenario) accountKubeconfig(namespace, name, file, server string) (string, error) {
	token, err := s.accountToken(namespace, name)
	if err != nil {
		return "", err
	}
	return s.bed.writeKubeconfig(file, server, token)
}

// Secret writes the files of a TLS Secret into a folder of that name and returns
// the folder: a certificate for a common name, which is a DNS name too, its key,
// and ca.crt, whom its owner believes.
func (s *Scenario) Secret(name string, issuer *Issuer, commonName string, believes *Issuer) string {
	s.T.Helper()
	pair := issuer.Issue(Leaf{CommonName: commonName, DNSNames: []string{commonName}})
	s.WriteFile(name+"/tls.crt", string(pair.Cert))
	s.WriteFile(name+"/tls.key", string(pair.Key))
	return filepath.Dir(s.WriteFile(name+"/ca.crt", string(believes.CA())))
}

// Program is one of the control plane's programs.
func (b *Bed) Program(name string) string { return b.program(name) }

// AdminKubeconfig is the administrator's.
func (b *Bed) AdminKubeconfig() string { return b.file("admin.kubeconfig") }

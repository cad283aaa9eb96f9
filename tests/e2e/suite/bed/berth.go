package bed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// berthBinary is the program under test. It must be named: a run without it
// would prove nothing.
func berthBinary() (string, error) {
	path := os.Getenv("BERTH_BIN")
	if path == "" {
		return "", errors.New("BERTH_BIN does not name the berth program")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	return path, err
}

// StartBerth starts berth serve on the scenario's ports and waits until it is
// ready.
func (s *Scenario) StartBerth() {
	s.T.Helper()
	must(s.T, s.startBerth())
}

func (s *Scenario) startBerth() error {
	binary, err := berthBinary()
	if err != nil {
		return err
	}
	args := []string{"serve",
		"--kubeconfig", s.bed.file("berth.kubeconfig"),
		"--listen", Address(s.verbPort),
		"--ops-listen", Address(s.opsPort),
		"--leader-elect=false", "--log-format", "text", "-v", "2"}
	if s.options.Policy != "" {
		args = append(args, "--policy", s.policyFile())
	}
	if s.options.OpsTLS {
		args = append(args, "--ops-tls-cert-file", s.bed.ca.certFile, "--ops-tls-private-key-file", s.bed.ca.keyFile)
	}
	args = append(args, s.options.Flags...)
	if s.berth, err = startProcess(s.dir, "berth", binary, args...); err != nil {
		return err
	}
	return s.berth.waitReady(Timeout, func() error {
		_, err := get(s.OpsURL("/readyz"))
		return err
	})
}

// RunBerth runs another command of the program and returns what it prints. ADMIN
// in an argument stands for the administrator's kubeconfig.
func (s *Scenario) RunBerth(args ...string) string {
	s.T.Helper()
	out, code := s.TryBerth(args...)
	if code != 0 {
		s.T.Fatalf("berth %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// TryBerth is RunBerth for a command that may fail: it returns the exit code too.
func (s *Scenario) TryBerth(args ...string) (out string, code int) {
	s.T.Helper()
	binary, err := berthBinary()
	must(s.T, err)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "ADMIN", s.bed.file("admin.kubeconfig"))
	}
	ctx, cancel := context.WithTimeout(s.ctx, Timeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.T.Fatal(err)
	}
	if err != nil {
		code = exit.ExitCode()
	}
	return string(text), code
}

// KillBerth ends Berth with a signal and waits until it is gone.
func (s *Scenario) KillBerth(sig syscall.Signal) {
	s.T.Helper()
	s.berth.Signal(sig)
	select {
	case <-s.berth.done:
	case <-time.After(Timeout):
		s.T.Fatalf("berth lives on %v after %v", Timeout, sig)
	}
}

// StopBerth ends Berth in good order.
func (s *Scenario) StopBerth() {
	s.berth.Stop(5 * time.Second)
	s.berth = nil
}

// OpsURL is an address on Berth's operations port; of several, the leader's.
func (s *Scenario) OpsURL(path string) string {
	if leader := s.leader(); leader != nil {
		return leader.opsURL(path)
	}
	scheme := "http"
	if s.options.OpsTLS {
		scheme = "https"
	}
	return Loopback(scheme, s.opsPort, path)
}

// Ask fetches a path from Berth's operations port with a bearer token, "" for
// none, and returns the status and the answer.
func (s *Scenario) Ask(path, token string) (int, string) {
	s.T.Helper()
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.OpsURL(path), nil)
	must(s.T, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := *probeClient
	client.Timeout = Timeout
	response, err := client.Do(request)
	must(s.T, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(s.T, err)
	return response.StatusCode, string(body)
}

// BerthLog is what Berth has logged so far.
func (s *Scenario) BerthLog() string {
	s.T.Helper()
	log, err := os.ReadFile(s.berth.log)
	must(s.T, err)
	return string(log)
}

// Get fetches a path from Berth's operations port, as the administrator where it
// asks who comes.
func (s *Scenario) Get(path string) []byte {
	s.T.Helper()
	body, err := getAs(s.OpsURL(path), s.opsToken())
	must(s.T, err)
	return body
}

func (s *Scenario) policyFile() string { return filepath.Join(s.dir, "policy.yaml") }

// WritePolicy replaces the policy file in one step, as an editor or a projected
// volume does.
func (s *Scenario) WritePolicy(text string) {
	s.T.Helper()
	must(s.T, writePolicy(s.policyFile(), text))
}

func writePolicy(path, text string) error {
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// Why is Berth's answer to why a pod waits.
type Why struct {
	Reason string // the reason token
	Raw    string // the whole answer
}

// opsToken is what Berth's operations port is shown where it is the installed one,
// which asks who comes: the administrator's.
func (s *Scenario) opsToken() string {
	if s.options.OpsTLS || s.Deployed != nil {
		return s.bed.adminToken
	}
	return ""
}

// Why asks Berth why a pod waits; where the port is the installed one, which asks
// who comes, as the administrator.
func (s *Scenario) Why(pod *corev1.Pod) (Why, error) {
	body, err := getAs(s.OpsURL("/api/v1/why?pod="+url.QueryEscape(pod.Namespace+"/"+pod.Name)), s.opsToken())
	if err != nil {
		return Why{}, err
	}
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return Why{}, fmt.Errorf("why %s: %w in %s", pod.Name, err, body)
	}
	return Why{Reason: findReason(tree), Raw: string(body)}, nil
}

// findReason returns the value of the outermost "reason" key: the answer may
// carry it beside or inside the verdict.
func findReason(tree any) string {
	object, ok := tree.(map[string]any)
	if !ok {
		return ""
	}
	if reason, ok := object["reason"].(string); ok {
		return reason
	}
	for _, key := range []string{"verdict", "workload", "pod"} {
		if reason := findReason(object[key]); reason != "" {
			return reason
		}
	}
	return ""
}

// WhyIs waits until Berth gives one of the reasons for a pod's waiting.
func (s *Scenario) WhyIs(pod *corev1.Pod, reasons ...string) Why {
	s.T.Helper()
	var why Why
	Eventually(s.T, Timeout, fmt.Sprintf("why %s says %s", pod.Name, strings.Join(reasons, " or ")), func() (err error) {
		if why, err = s.Why(pod); err != nil {
			return err
		}
		for _, reason := range reasons {
			if why.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("reason is %q in %.600s", why.Reason, why.Raw)
	})
	return why
}

// Metrics maps every series, as written in the exposition, to its value.
type Metrics map[string]float64

// Metrics reads Berth's metrics.
func (s *Scenario) Metrics() Metrics {
	s.T.Helper()
	metrics, err := parseMetrics(s.Get("/metrics"))
	must(s.T, err)
	return metrics
}

// MetricsAs reads Berth's metrics with a bearer token.
func (s *Scenario) MetricsAs(token string) Metrics {
	s.T.Helper()
	status, body := s.Ask("/metrics", token)
	must(s.T, Unless(status == http.StatusOK, "/metrics: %d", status))
	metrics, err := parseMetrics([]byte(body))
	must(s.T, err)
	return metrics
}

func parseMetrics(text []byte) (Metrics, error) {
	metrics := Metrics{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		// The name ends at the first blank outside of the label braces.
		end := strings.LastIndexByte(line, '}') + 1
		if end == 0 {
			end = strings.IndexByte(line, ' ')
		}
		if end <= 0 {
			return nil, fmt.Errorf("not a sample: %q", line)
		}
		fields := strings.Fields(line[end:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("sample without value: %q", line)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("sample %q: %w", line, err)
		}
		metrics[line[:end]] = value
	}
	return metrics, lines.Err()
}

// Sum adds up the series of a family whose labels contain all of the given
// fragments, such as `result="success"`. The second result says whether there
// was any.
func (m Metrics) Sum(family string, labels ...string) (sum float64, found bool) {
series:
	for name, value := range m {
		base, rest, _ := strings.Cut(name, "{")
		if base != family {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue series
			}
		}
		sum, found = sum+value, true
	}
	return sum, found
}

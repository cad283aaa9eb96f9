package suite

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth.dev/tests/e2e/suite/bed"
)

// reader is what the ClusterRole view consists of; the controller that puts it
// together does not run here.
const reader = "system:aggregate-to-view"

var (
	tokenReviews  = regexp.MustCompile(`/tokenreviews$`)
	accessReviews = regexp.MustCompile(`/subjectaccessreviews$`)
)

// The operations port under --ops-auth kubernetes: the cluster's own rules say who
// reads what; pages that name pods need rights to those pods.
func TestOpsPortAsksTheCluster(t *testing.T) {
	s := control.Scenario(t, bed.Options{OpsTLS: true, Flags: []string{"--ops-auth", "kubernetes"}})
	s.Namespace("team-a")
	s.Namespace("team-b")
	s.Nodes(1).GPUs(8).Create()
	s.Pod("p").Namespace("team-a").GPUs(1).Gang("ga", 2).Create()
	b := s.Pod("q").Namespace("team-b").GPUs(1).Gang("gb", 2).Create()

	tokens := map[string]string{
		"nobody":   "",
		"unknown":  "not-a-token-of-this-cluster",
		"expired":  s.Account("team-a", "late").MayIn("team-a", reader).TokenUntil(time.Now().Add(-time.Hour)),
		"ordinary": s.Account("team-a", "ordinary").MayIn("team-a", reader).Token(),
		"scraper":  s.Account("team-b", "scraper").May("berth-metrics-reader").Token(),
		"operator": s.Account("team-b", "operator").May("berth-viewer").Token(),
	}
	bed.Eventually(t, bed.Timeout, "Berth knows the pods", func() error {
		_, body := s.Ask("/api/v1/gangs", tokens["operator"])
		return bed.Unless(strings.Contains(body, `"ga"`) && strings.Contains(body, `"gb"`), "%s", body)
	})

	const ok, unknown, forbidden = http.StatusOK, http.StatusUnauthorized, http.StatusForbidden
	all := func(status int) map[string]int {
		wanted := map[string]int{"nobody": unknown, "unknown": unknown, "expired": unknown}
		for _, name := range []string{"ordinary", "scraper", "operator"} {
			wanted[name] = status
		}
		return wanted
	}
	only := func(allowed ...string) map[string]int {
		wanted := all(forbidden)
		for _, name := range allowed {
			wanted[name] = ok
		}
		return wanted
	}
	everybody := map[string]int{"nobody": ok, "unknown": ok, "expired": ok, "ordinary": ok}
	notFound := only("ordinary", "operator")
	notFound["ordinary"], notFound["operator"] = http.StatusNotFound, http.StatusNotFound
	for path, wanted := range map[string]map[string]int{
		"/livez": everybody, "/readyz?verbose": everybody, "/healthz": everybody,
		"/metrics":                        only("scraper", "operator"),
		"/configz":                        only("operator"),
		"/debug/ledger":                   only("operator"),
		"/debug/threads":                  only("operator"),
		"/api/v1/queues":                  all(ok), // by system:discovery, which everybody has
		"/api/v1/gangs":                   only("operator"),
		"/api/v1/gangs?namespace=team-a":  only("operator", "ordinary"),
		"/api/v1/gangs?namespace=team-b":  only("operator"),
		"/api/v1/pods":                    only("operator"),
		"/api/v1/pods?namespace=team-a":   only("operator", "ordinary"),
		"/api/v1/pods?namespace=team-b":   only("operator"),
		"/api/v1/nodes":                   only("operator"),
		"/api/v1/why?pod=team-a/p":        only("operator", "ordinary"),
		"/api/v1/why?pod=team-a/none":     notFound,
		"/api/v1/why?pod=team-b/q":        only("operator"),
		"/api/v1/why?pod=team-b%2Fq":      only("operator"),
		"/api/v1/why?pod=team-b/no-such":  {"ordinary": forbidden},
		"/api/v1/why?pod=../team-b/q":     {"ordinary": http.StatusBadRequest},
		"/api/v1/../v1/why?pod=team-b/q":  {"ordinary": http.StatusNotFound},
		"/api//v1/why?pod=team-b/q":       {"ordinary": http.StatusNotFound},
		"/livez/../metrics":               {"nobody": http.StatusNotFound},
		"/metrics/":                       {"nobody": http.StatusNotFound},
		"/api/v1/gangs?namespace=&x=team": {"ordinary": forbidden},
	} {
		for name, status := range wanted {
			got, body := s.Ask(path, tokens[name])
			if got != status {
				t.Errorf("%s as %s: %d, want %d: %.200s", path, name, got, status, body)
			}
			if got != ok && got != http.StatusBadRequest && strings.Contains(body, string(b.UID)) {
				t.Errorf("%s as %s tells of team-b's pod: %s", path, name, body)
			}
		}
	}
	if _, body := s.Ask("/api/v1/gangs?namespace=team-a", tokens["ordinary"]); strings.Contains(body, `"gb"`) {
		t.Errorf("team-a is shown team-b's gang: %s", body)
	}
	log := s.BerthLog()
	for name, token := range tokens {
		if token != "" && strings.Contains(log, token) {
			t.Errorf("the log holds the token of %s", name)
		}
	}
}

// A token counts until it expires, or its account is deleted, and what Berth and
// the API server remember of it for 10 s each.
func TestTokensThatEnd(t *testing.T) {
	s := control.Scenario(t, bed.Options{OpsTLS: true, Flags: []string{"--ops-auth", "kubernetes"}})
	s.Namespace("team-a")
	// The API server grants a minute beyond the end.
	short := s.Account("team-a", "short").May("berth-metrics-reader").TokenUntil(time.Now().Add(-55 * time.Second))
	deleted := s.Account("team-a", "deleted").May("berth-metrics-reader").Token()
	for _, token := range []string{short, deleted} {
		bed.Eventually(t, bed.Timeout, "the token counts", func() error {
			status, body := s.Ask("/metrics", token)
			return bed.Unless(status == http.StatusOK, "%d %s", status, body)
		})
	}
	s.DeleteAccount("team-a", "deleted")
	for name, token := range map[string]string{"expired": short, "deleted": deleted} {
		bed.Eventually(t, 2*bed.Timeout, "the token that is "+name+" counts no more", func() error {
			status, _ := s.Ask("/metrics", token)
			return bed.Unless(status == http.StatusUnauthorized, "%d", status)
		})
	}
}

// While the API server does not say, nobody is let in and nobody is told that they
// may not: 503, in time for a client's own deadline.
func TestOpsPortWithoutAPIServer(t *testing.T) {
	s := control.Scenario(t, bed.Options{OpsTLS: true, Flags: []string{"--ops-auth", "kubernetes"}})
	s.Namespace("team-a")
	account := s.Account("team-a", "scraper").May("berth-metrics-reader")
	bed.Eventually(t, bed.Timeout, "the right is in force", func() error {
		status, _ := s.Ask("/metrics", account.Token())
		return bed.Unless(status == http.StatusOK, "%d", status)
	})
	for i, path := range []*regexp.Regexp{tokenReviews, accessReviews} {
		for j, fail := range []bed.Action{bed.Fail(http.StatusInternalServerError), bed.Fail(http.StatusForbidden), bed.NewHold().Action} {
			rule := s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: path, Do: fail})
			// Not one that is remembered.
			token := s.Account("team-a", fmt.Sprintf("fresh-%d-%d", i, j)).May("berth-metrics-reader").Token()
			begin := time.Now()
			if status, _ := s.Ask("/metrics", token); status != http.StatusServiceUnavailable || rule.Hits() == 0 {
				t.Errorf("%v, %d: %d, after %d reviews", path, j, status, rule.Hits())
			}
			if took := time.Since(begin); took > 9*time.Second {
				t.Errorf("%v, %d: took %v", path, j, took)
			}
			if status, _ := s.Ask("/readyz", ""); status != http.StatusOK {
				t.Errorf("%v, %d: /readyz is %d", path, j, status)
			}
			s.Proxy.Clear()
			if status, _ := s.Ask("/metrics", token); status != http.StatusOK {
				t.Errorf("%v, %d: %d once the API server answers", path, j, status)
			}
		}
	}
	metrics := s.MetricsAs(account.Token())
	if n := metrics[`berth_ops_auth_total{result="error"}`]; n != 6 {
		t.Errorf("%v errors are counted", n)
	}
}

// The commands show a token, as kubectl does: by file or kubeconfig, over TLS, and
// never in plain text to another machine.
func TestCommandsShowATokenFromAFile(t *testing.T) {
	s := control.Scenario(t, bed.Options{OpsTLS: true, Flags: []string{"--ops-auth", "kubernetes"}})
	s.Namespace("team-a")
	s.Nodes(1).GPUs(8).Create()
	s.Pod("p").Namespace("team-a").GPUs(1).Gang("ga", 2).Create()
	account := s.Account("team-a", "ordinary").MayIn("team-a", reader)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, _ := control.ServingPair()
	token := write("token", account.Token()+"\n")
	late := write("late", account.TokenUntil(time.Now().Add(-time.Hour)))
	kubeconfig := write("kubeconfig", fmt.Sprintf(`{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://elsewhere"}}], users: [{name: u, user: {token: %q}}]}`, account.Token()))
	without := write("without", `{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://elsewhere"}}]}`)
	url := strings.TrimSuffix(s.OpsURL("/"), "/")
	bed.Eventually(t, bed.Timeout, "why answers", func() error {
		out, code := s.TryBerth("why", "-n", "team-a", "p", "--berth-url", url, "--token-file", token, "--certificate-authority", ca)
		return bed.Unless(code == 0 && strings.Contains(out, "WaitingForMembers"), "%d %s", code, out)
	})
	for _, c := range []struct {
		what string
		args []string
		code int
		says string
	}{
		{"a kubeconfig", []string{"why", "team-a/p", "--kubeconfig", kubeconfig}, 0, "WaitingForMembers"},
		{"own gangs", []string{"gangs", "-n", "team-a", "--token-file", token}, 0, "ga"},
		{"all gangs", []string{"gangs", "--token-file", token}, 1, `cannot list resource "pods" in all namespaces`},
		{"another's pod", []string{"why", "team-b/q", "--token-file", token}, 1, `cannot get resource "pods" in the namespace "team-b"`},
		{"no token", []string{"queues"}, 1, "Unauthorized"},
		{"an expired one", []string{"queues", "--token-file", late}, 1, "Unauthorized"},
		{"no file", []string{"queues", "--token-file", dir + "/none"}, 3, "cannot be read"},
		{"a kubeconfig without one", []string{"queues", "--kubeconfig", without}, 1, "has no token"},
	} {
		out, code := s.TryBerth(append(c.args, "--berth-url", url, "--certificate-authority", ca)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, %s", c.what, code, out)
		}
	}
	if out, code := s.TryBerth("queues", "--berth-url", url, "--token-file", token); code != 3 || !strings.Contains(out, "--certificate-authority") {
		t.Errorf("a service that cannot be verified: exit code %d, %s", code, out)
	}
	if out, code := s.TryBerth("queues", "--berth-url", url, "--token-file", token, "--insecure-skip-tls-verify"); code != 0 {
		t.Errorf("unverified by request: exit code %d, %s", code, out)
	}
	if out, code := s.TryBerth("queues", "--berth-url", "http://192.0.2.1:9090", "--token-file", token); code != 2 || !strings.Contains(out, "refusing to send credentials over plain HTTP") {
		t.Errorf("in plain text: exit code %d, %s", code, out)
	}
}

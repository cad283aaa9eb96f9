package suite

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

const (
	monitoringFolder = "../../../manifests/monitoring"
	ruleTests        = "../../prometheus/rules_test.yaml"
	documentation    = "../../../docs"
)

// monitoring renders manifests/monitoring, as `kubectl kustomize` does.
func monitoring(t *testing.T) []object {
	t.Helper()
	rendered, err := bed.Render(monitoringFolder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "monitoring.yaml")
	if err := os.WriteFile(path, rendered, 0o600); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

// rulesFile cuts the plain rules file out of the PrometheusRule, in the way that
// its head comment gives.
func rulesFile(t *testing.T) string {
	t.Helper()
	shipped := monitoringFolder + "/rules.yaml"
	command := regexp.MustCompile(`(?m)^# +(sed .* )manifests/monitoring/rules.yaml >`).FindStringSubmatch(read(t, shipped))
	if command == nil {
		t.Fatalf("%s does not say how to do without the operator", shipped)
	}
	plain, err := exec.Command("sh", "-c", command[1]+shipped).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// alerts are those of the PrometheusRule, which the operator's own types take.
func alerts(t *testing.T) (rules []monitoringv1.Rule) {
	t.Helper()
	var shipped monitoringv1.PrometheusRule
	pick(t, monitoring(t), "PrometheusRule", "berth", &shipped)
	for _, group := range shipped.Spec.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) < 20 {
		t.Fatalf("%d rules", len(rules))
	}
	return rules
}

// promtool runs Debian's promtool.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.Command(bed.PrometheusProgram(t, "promtool"), arguments...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

// Every alert fires when it should and not when it should not.
func TestPrometheusRules(t *testing.T) {
	dir := t.TempDir()
	tests := read(t, ruleTests)
	for name, text := range map[string]string{"berth.rules.yaml": rulesFile(t), "rules_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "check", "rules", filepath.Join(dir, "berth.rules.yaml"))
	promtool(t, "test", "rules", filepath.Join(dir, "rules_test.yaml"))

	fires := regexp.MustCompile(`labels: '\{alertname="(\w+)"`)
	var tested []string
	for _, match := range fires.FindAllStringSubmatch(tests, -1) {
		tested = append(tested, match[1])
	}
	for _, rule := range alerts(t) {
		if !slices.Contains(tested, rule.Alert) {
			t.Errorf("%s never fires in a test", rule.Alert)
		}
		quiet := regexp.MustCompile(`(?m)^ *- \{expr: 'ALERTS\{alertname=~?"[\w|]*\b` + rule.Alert + `\b`)
		if !quiet.MatchString(tests) {
			t.Errorf("no test says when %s does not fire", rule.Alert)
		}
	}
}

// Every alert says what is wrong, what that does, and where to read what to do;
// and the page has nothing else.
func TestPrometheusAlertsAreExplained(t *testing.T) {
	page := read(t, documentation+"/monitoring.md")
	var names []string
	for _, rule := range alerts(t) {
		names = append(names, rule.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s says nothing", rule.Alert)
		}
		if want := "docs/monitoring.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook"] != want {
			t.Errorf("%s: runbook %q, want %q", rule.Alert, rule.Annotations["runbook"], want)
		}
		if !strings.Contains(page, "\n### "+rule.Alert+"\n") {
			t.Errorf("docs/monitoring.md has no heading %s", rule.Alert)
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(names, heading[1]) {
			t.Errorf("docs/monitoring.md explains %s, which is no alert", heading[1])
		}
	}
}

// A number and the reasons that rules.yaml repeats are what their own files say.
func TestPrometheusRulesRepeatTheTruth(t *testing.T) {
	var deployment appsv1.Deployment
	find(t, baseFolder+"/deployment.yaml", "Deployment", &deployment)
	limit := deployment.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
	reasons := read(t, "../../../cluster/reason.cc")
	for _, rule := range alerts(t) {
		expression := rule.Expr.String()
		if rule.Alert == "BerthMemoryNearLimit" && (limit.Value() != 1<<30 || !strings.HasSuffix(expression, "0.9 * 1024 * 1024 * 1024")) {
			t.Errorf("Berth may use %v, and the alert is at %s", &limit, expression)
		}
		for _, list := range regexp.MustCompile(`[{ ]reason=~?"([A-Z]\w+(?:\|\w+)*)"`).FindAllStringSubmatch(expression, -1) {
			for _, reason := range strings.Split(list[1], "|") {
				if !strings.Contains(reasons, `"`+reason+`"`) {
					t.Errorf("%s asks for the reason %s, which there is not", rule.Alert, reason)
				}
			}
		}
	}
}

// dashboardQueries are the expressions of the dashboard, by panel or variable, as
// Grafana sends them.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	var shipped corev1.ConfigMap
	pick(t, monitoring(t), "ConfigMap", "berth-dashboard", &shipped)
	if shipped.Labels["grafana_dashboard"] != "1" {
		t.Errorf("Grafana's sidecar does not find it by %v", shipped.Labels)
	}
	type target struct{ Expr, RefID string }
	var dashboard struct {
		UID, Title string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct{ List []target }
		Panels      []struct {
			ID          int
			Type, Title string
			Targets     []target
		}
	}
	if err := json.Unmarshal([]byte(shipped.Data["berth.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || dashboard.Title != "Berth" {
		t.Errorf("it is %q %q", dashboard.UID, dashboard.Title)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$queue", ".*", "$resource", ".*")
	queries := map[string]string{}
	seen := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if seen[panel.ID] {
			t.Errorf("%s: its id is another panel's too", panel.Title)
		}
		seen[panel.ID] = true
		if len(panel.Targets) == 0 && panel.Type != "row" {
			t.Errorf("%s shows nothing", panel.Title)
		}
		for _, query := range panel.Targets {
			queries[panel.Title+" "+query.RefID] = variables.Replace(query.Expr)
		}
	}
	for _, annotation := range dashboard.Annotations.List {
		queries["annotation"] = annotation.Expr
	}
	values := regexp.MustCompile(`^label_values\((\w+), \w+\)$`)
	for _, variable := range dashboard.Templating.List {
		if match := values.FindStringSubmatch(variable.Definition); match != nil {
			queries["variable "+variable.Name] = match[1]
		}
	}
	if len(queries) < 30 {
		t.Fatalf("%d queries: %v", len(queries), queries)
	}
	for what, query := range queries {
		if strings.Contains(query, "$") {
			t.Errorf("%s: a variable is not known: %s", what, query)
		}
	}
	return queries
}

// documented are the metrics of docs/metrics.md, with the series that
// Prometheus makes of histograms.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"up": true}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(read(t, documentation+"/metrics.md"), -1) {
		names[row[1]] = true
		if row[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[row[1]+suffix] = true
			}
		}
	}
	if len(names) < 20 {
		t.Fatalf("docs/metrics.md has %v", names)
	}
	return names
}

var metricName = regexp.MustCompile(`\b(berth|process)_\w+|\bup\b`)

// Alerts and panels ask for metrics that there are.
func TestPrometheusAskedForWhatThereIs(t *testing.T) {
	known := documented(t)
	expressions := dashboardQueries(t)
	for _, rule := range alerts(t) {
		expressions[rule.Alert] = rule.Expr.String()
	}
	for what, expression := range expressions {
		names := metricName.FindAllString(expression, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric: %s", what, expression)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s asks for %s, which docs/metrics.md has not", what, name)
			}
		}
	}
}

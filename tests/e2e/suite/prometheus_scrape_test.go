package suite

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

// scrapeConfig is what the operator makes of the ServiceMonitor, for one address:
// there is no operator here, and pods have no addresses.
func scrapeConfig(t *testing.T, s *bed.Scenario, objects []object, berth *appsv1.Deployment, ca, token string, port int) string {
	t.Helper()
	var monitor monitoringv1.ServiceMonitor
	var service corev1.Service
	pick(t, objects, "ServiceMonitor", "berth", &monitor)
	pick(t, objects, "Service", "berth-metrics", &service)
	endpoint := monitor.Spec.Endpoints[0]
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[key] != value {
			t.Errorf("the ServiceMonitor selects %s=%s, the Service has %v", key, value, service.Labels)
		}
	}
	for key, value := range service.Spec.Selector {
		if berth.Spec.Template.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, the pods have %v", key, value, berth.Spec.Template.Labels)
		}
	}
	if named := service.Spec.Ports[0]; named.Name != endpoint.Port || named.TargetPort.StrVal != "ops" {
		t.Errorf("port %+v of the Service, endpoint %s", named, endpoint.Port)
	}
	secret := endpoint.Authorization.Credentials
	var issued corev1.Secret
	pick(t, objects, "Secret", secret.Name, &issued)
	if account := issued.Annotations[corev1.ServiceAccountNameKey]; secret.Key != corev1.ServiceAccountTokenKey ||
		issued.Type != corev1.SecretTypeServiceAccountToken || account != "berth-metrics" {
		t.Errorf("the token is %s of the Secret %+v", secret.Key, issued)
	}
	return fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [berth.rules.yaml]
scrape_configs:
- job_name: %s
  scheme: %s
  authorization: {credentials_file: %s}
  tls_config: &tls {ca_file: %s, server_name: %s}
  static_configs: &replica [{targets: ["127.0.0.1:%d"]}]
- {job_name: no-token, scheme: https, tls_config: *tls, static_configs: *replica}
- {job_name: wrong-name, scheme: https, authorization: {credentials_file: %[3]s}, tls_config: {ca_file: %[4]s}, static_configs: *replica}
`, service.Labels[monitor.Spec.JobLabel], *endpoint.Scheme,
		s.WriteFile("metrics-token", token), s.WriteFile("berth-ca/ca.crt", ca), *endpoint.TLSConfig.ServerName, port)
}

// Debian's Prometheus scrapes an installed Berth as manifests/monitoring says:
// over TLS, under the name and with the account given there, and nobody without
// that account. All rules are loaded and can be evaluated, all panels' queries are
// answered, and a policy that is refused is told of.
func TestPrometheusScrapesBerth(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true, OpsTLS: true})
	s.Nodes(2).GPUs(8).Create()
	var berth appsv1.Deployment
	pick(t, install(t, s, "managed"), "Deployment", "berth", &berth)
	tls := newIssuers(s)
	startBerth(t, s, tls, &berth)
	s.AllBound(s.Pod("g").GPUs(2).Gang("g", 4).GatedIf(!servesGate(t)).CreateN(4)...)

	objects := monitoring(t)
	apply := newApplier(t)
	for _, o := range objects {
		if o.GroupVersionKind().Group == "monitoring.coreos.com" {
			continue // the operator's kinds; read by its own types below
		}
		t.Cleanup(func() {
			if err := apply.delete(s.Context(), o); err != nil {
				t.Errorf("%s: %v", o, err)
			}
		})
		if err := apply.apply(s.Context(), o, false); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
	_, ops := s.Ports()
	s.WriteFile("berth.rules.yaml", rulesFile(t))
	p := s.Prometheus(scrapeConfig(t, s, objects, &berth, string(tls.servers.CA()),
		s.AccountToken(bed.SystemNamespace, "berth-metrics"), ops))

	checkTargets(t, p)
	names := checkNames(t, p)
	for what, query := range dashboardQueries(t) {
		if _, err := p.Query(query); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, name := range metricName.FindAllString(query, -1) {
			if !names[name] && !seldom[strings.TrimSuffix(name, "_total")] {
				t.Errorf("%s: Prometheus has no %s", what, name)
			}
		}
	}
	checkRules(t, p)

	patch := `{"data":{"policy.yaml":"nonsense"}}`
	if _, err := s.Client.CoreV1().ConfigMaps(bed.SystemNamespace).Patch(s.Context(), "berth-policy", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bed.Eventually(t, bed.Timeout, "the refused policy is told of", func() error {
		samples, err := p.Query(`ALERTS{alertname="BerthPolicyRefused", alertstate="pending", job="berth"}`)
		return bed.Unless(err == nil && len(samples) == 1, "%v, %v", samples, err)
	})
	// Certificates live for a day here, so that their end is near; nothing else is
	// wrong.
	samples, err := p.Query(`count by (alertname) (ALERTS{job!~"no-token|wrong-name"})`)
	var pending []string
	for _, sample := range samples {
		pending = append(pending, sample.Metric["alertname"])
	}
	slices.Sort(pending)
	if want := []string{"BerthCertificateExpires", "BerthPolicyRefused"}; err != nil || !slices.Equal(pending, want) {
		t.Errorf("%v, %v", pending, err)
	}
}

// seldom are series that begin with the first time that something happens, or up
// to a minute later, or only under a policy with flavors.
var seldom = map[string]bool{
	"berth_http_events": true, "berth_evictions": true, "berth_watch_restarts": true,
	"berth_queue_limit": true, "berth_binds": true, "berth_pending_workloads": true,
	"berth_queue_device_seconds": true, "berth_user_device_seconds": true,
	"berth_evictions_in_vain": true, "berth_queue_flavor_used": true, "berth_queue_flavor_quota": true,
}

// checkTargets waits until Berth is up for its own account, and for nobody else.
func checkTargets(t *testing.T, p *bed.Prometheus) {
	t.Helper()
	want := map[string]string{"berth": "", "no-token": "server returned HTTP status 401", "wrong-name": "cannot validate certificate for 127.0.0.1"}
	bed.Eventually(t, bed.Timeout, "the targets are known", func() error {
		var targets struct {
			ActiveTargets []struct {
				ScrapePool, Health, LastError string
			}
		}
		if err := p.Get("targets", nil, &targets); err != nil {
			return err
		}
		for _, target := range targets.ActiveTargets {
			wanted := want[target.ScrapePool]
			if (target.Health == "up") != (wanted == "") || !strings.Contains(target.LastError, wanted) {
				return fmt.Errorf("%+v", target)
			}
		}
		return bed.Unless(len(targets.ActiveTargets) == len(want), "%d targets", len(targets.ActiveTargets))
	})
}

// checkNames returns the names of Berth's metrics that Prometheus has, none of
// which is undocumented.
func checkNames(t *testing.T, p *bed.Prometheus) map[string]bool {
	t.Helper()
	var list []string
	if err := p.Get("label/__name__/values", url.Values{"match[]": {`{job="berth"}`}}, &list); err != nil {
		t.Fatal(err)
	}
	known, names := documented(t), map[string]bool{}
	for _, name := range list {
		names[name] = true
		if !known[name] && metricName.MatchString(name) {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
	}
	return names
}

// checkRules waits until every rule has been evaluated, without an error.
func checkRules(t *testing.T, p *bed.Prometheus) {
	t.Helper()
	want := len(alerts(t))
	bed.Eventually(t, bed.Timeout, "all rules are evaluated", func() error {
		var loaded struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := p.Get("rules", nil, &loaded); err != nil {
			return err
		}
		evaluated := 0
		for _, group := range loaded.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return fmt.Errorf("%+v", rule)
				}
				evaluated++
			}
		}
		return bed.Unless(evaluated == want, "%d of %d", evaluated, want)
	})
}

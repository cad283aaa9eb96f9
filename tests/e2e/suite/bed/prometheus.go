package bed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"
)

// Prometheus is a running one of Debian's.
type Prometheus struct {
	t   testing.TB
	url string
}

// Prometheus starts Prometheus with a configuration in which relative paths mean
// the scenario's files. It ends with the test.
func (s *Scenario) Prometheus(config string) *Prometheus {
	s.T.Helper()
	port := s.FreePort()
	p := &Prometheus{t: s.T, url: Loopback("http", port, "")}
	process, err := startProcess(s.dir, "prometheus", PrometheusProgram(s.T, "prometheus"),
		"--config.file="+s.WriteFile("prometheus.yaml", config),
		"--storage.tsdb.path="+filepath.Join(s.dir, "prometheus.data"),
		"--web.listen-address="+Address(port))
	must(s.T, err)
	s.T.Cleanup(func() {
		if s.T.Failed() {
			s.T.Logf("prometheus ends:\n%s", tail(process.log, 4000))
		}
		process.Kill()
	})
	must(s.T, process.waitReady(Timeout, func() error {
		_, err := get(p.url + "/-/ready")
		return err
	}))
	return p
}

// PrometheusProgram finds prometheus or promtool, which `./dev e2e` brings.
func PrometheusProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: it is in Debian's package prometheus, which `./dev e2e` unpacks", err)
	}
	return path
}

// Get decodes the data of an answer of Prometheus' API, as path and parameters
// ask for it.
func (p *Prometheus) Get(path string, parameters url.Values, into any) error {
	response, err := probeClient.Get(p.url + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// Sample is one series of a query's answer.
type Sample struct {
	Metric map[string]string
	Value  [2]any // time, and the value as text
}

// Query evaluates an expression now.
func (p *Prometheus) Query(expression string) (samples []Sample, err error) {
	var data struct{ Result []Sample }
	err = p.Get("query", url.Values{"query": {expression}}, &data)
	return data.Result, err
}

package bed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// GPU is the resource that the tests' devices have.
const GPU = "nvidia.com/gpu"

// schedulerConfig is what kube-scheduler runs with. Its own client is made fast,
// because the default rate would be the bottleneck of every test.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
%sextenders: %s
`

// BerthExtender is the entry that Berth documents for kube-scheduler's config.
func BerthExtender(url string, o Options) configv1.Extender {
	e := configv1.Extender{
		URLPrefix:        url,
		FilterVerb:       "filter",
		PrioritizeVerb:   "prioritize",
		BindVerb:         "bind",
		PreemptVerb:      "preempt",
		Weight:           13,
		NodeCacheCapable: true,
		HTTPTimeout:      metav1.Duration{Duration: o.HTTPTimeout},
	}
	for _, name := range append([]string{GPU}, o.Managed...) {
		e.ManagedResources = append(e.ManagedResources, configv1.ExtenderManagedResource{Name: name})
	}
	for _, name := range o.Ignored {
		e.ManagedResources = append(e.ManagedResources, configv1.ExtenderManagedResource{Name: name, IgnoredByScheduler: true})
	}
	return e
}

// StartScheduler starts kube-scheduler with the scenario's config.
func (s *Scenario) StartScheduler() {
	s.T.Helper()
	must(s.T, s.startScheduler())
}

func (s *Scenario) startScheduler() error {
	extenders := append([]configv1.Extender{}, s.options.Before...)
	if url := s.extenderURL(); url != "" {
		extenders = append(extenders, BerthExtender(url, s.options))
	}
	extenders = append(extenders, s.options.After...)
	if s.options.Extenders != nil {
		extenders = s.options.Extenders(s.extenderURL())
	}
	list, err := json.Marshal(extenders)
	if err != nil {
		return err
	}
	extra := ""
	if s.options.Sampling != DefaultSampling {
		extra = fmt.Sprintf("percentageOfNodesToScore: %d\n", s.options.Sampling)
	}
	extra += s.options.SchedulerConfig
	if extra != "" && !strings.HasSuffix(extra, "\n") {
		extra += "\n"
	}
	text := fmt.Sprintf(schedulerConfig, s.bed.file("scheduler.kubeconfig"), extra, list)
	path := filepath.Join(s.dir, "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.scheduler, err = startProcess(s.dir, "kube-scheduler", s.bed.program("kube-scheduler"), append([]string{
		"--config=" + path, "--bind-address=" + loopback, fmt.Sprintf("--secure-port=%d", port), fmt.Sprintf("-v=%d", s.options.LogLevel),
	}, s.options.SchedulerFlags...)...)
	if err != nil {
		return err
	}
	return s.scheduler.waitReady(Timeout, func() error {
		_, err := get(Loopback("https", port, "/readyz"))
		return err
	})
}

// Log lines of kube-scheduler, of which the first needs LogLevel 3.
var (
	attemptLine = regexp.MustCompile(`"Attempting to schedule pod" pod="[^/]*/([^"]*)"`)
	boundLine   = regexp.MustCompile(`"Successfully bound pod to node" pod="[^/]*/([^"]*)" node="([^"]*)"`)
	noFitLine   = regexp.MustCompile(`"Unable to schedule pod; no fit; waiting" pod="[^/]*/([^"]*)"`)
)

// Attempts returns kube-scheduler's attempts in order, each as the pod's name
// and the node where it was bound, or "-" where it fitted nowhere.
func (s *Scenario) Attempts() (attempts []string) {
	s.T.Helper()
	log, err := os.ReadFile(s.scheduler.log)
	must(s.T, err)
	last := map[string]int{} // by pod, its latest attempt
	for _, line := range strings.Split(string(log), "\n") {
		if m := attemptLine.FindStringSubmatch(line); m != nil {
			last[m[1]] = len(attempts)
			attempts = append(attempts, m[1]+" ?")
		} else if m := boundLine.FindStringSubmatch(line); m != nil {
			attempts[last[m[1]]] = m[1] + " " + m[2]
		} else if m := noFitLine.FindStringSubmatch(line); m != nil {
			attempts[last[m[1]]] = m[1] + " -"
		}
	}
	return attempts
}

// SchedulerLog is what kube-scheduler has logged so far.
func (s *Scenario) SchedulerLog() string {
	s.T.Helper()
	log, err := os.ReadFile(s.scheduler.log)
	must(s.T, err)
	return string(log)
}

// StopScheduler ends kube-scheduler.
func (s *Scenario) StopScheduler() {
	s.scheduler.Stop(2 * time.Second)
	s.scheduler = nil
}

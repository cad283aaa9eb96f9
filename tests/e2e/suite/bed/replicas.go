package bed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Names by which Berths find a leader, and are found.
const (
	leaseName    = "berth"
	leaderLabel  = "berth.dev/leader"
	berthAppName = "app.kubernetes.io/name"
	// replicaHeader names the replica that a request at the Proxy comes from.
	replicaHeader = "X-Berth-Replica"
)

// Replica is one of several Berths of a scenario that elect a leader. Like in a
// Deployment it has a Pod, which the leader labels, though the process runs here.
type Replica struct {
	Name string // of its Pod

	s                   *Scenario
	process             *Process
	verbPort, opsPort   int
	tls                 bool // both ports
	verbURL, kubeconfig string
}

// Ports are those of the verbs and of operations.
func (r *Replica) Ports() (verbs, ops int) { return r.verbPort, r.opsPort }

// startReplicas makes the Lease, one that its last holder has released, the Pods
// and the Service, and starts the processes.
func (s *Scenario) startReplicas(n int) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: SystemNamespace}}
	if _, err := s.Client.CoordinationV1().Leases(SystemNamespace).Create(s.ctx, lease, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range n {
		r, err := s.newReplica(fmt.Sprintf("berth-%d", i))
		if err != nil {
			return err
		}
		s.Replicas = append(s.Replicas, r)
	}
	s.Service = newService(s.leader)
	for _, r := range s.Replicas {
		if err := r.start(); err != nil {
			return err
		}
	}
	return poll(Timeout, func() error {
		leader := s.leader()
		return Unless(leader != nil && leader.Leads(), "nobody leads")
	})
}

func (s *Scenario) newReplica(name string) (r *Replica, err error) {
	r = &Replica{Name: name, s: s}
	if r.verbPort, err = freePort(); err != nil {
		return nil, err
	}
	if r.opsPort, err = freePort(); err != nil {
		return nil, err
	}
	r.verbURL = Loopback("http", r.verbPort, "")
	if r.kubeconfig, err = s.bed.writeKubeconfig(name, s.Proxy.URL()+replicaPath+name, s.bed.berthToken); err != nil {
		return nil, err
	}
	builder := s.Pod(name).Namespace(SystemNamespace).Label(berthAppName, "berth").On("elsewhere")
	_, err = s.Client.CoreV1().Pods(SystemNamespace).Create(s.ctx, builder.Build(), metav1.CreateOptions{})
	return r, err
}

// Start starts the replica's process and waits until it is ready.
func (r *Replica) Start() {
	r.s.T.Helper()
	must(r.s.T, r.start())
}

func (r *Replica) start() error {
	binary, err := berthBinary()
	if err != nil {
		return err
	}
	args := []string{"POD_NAME=" + r.Name, "POD_NAMESPACE=" + SystemNamespace, binary, "serve",
		"--kubeconfig", r.kubeconfig, "--leader-elect",
		"--listen", Address(r.verbPort),
		"--ops-listen", Address(r.opsPort), "-v", "2"}
	if r.s.options.Policy != "" {
		args = append(args, "--policy", r.s.policyFile())
	}
	args = append(args, r.s.options.Flags...)
	if r.process, err = startProcess(r.s.dir, r.Name, "/usr/bin/env", args...); err != nil {
		return err
	}
	return r.process.waitReady(Timeout, func() error {
		_, err := get(r.opsURL("/readyz"))
		return err
	})
}

// Signal sends a signal to the replica's process.
func (r *Replica) Signal(sig syscall.Signal) { r.process.Signal(sig) }

// Wait waits until the process has ended, and returns its exit error.
func (r *Replica) Wait() error {
	r.s.T.Helper()
	Eventually(r.s.T, Timeout, r.Name+" ends", func() error {
		gone, _ := r.process.Exited()
		return Unless(gone, "it lives")
	})
	return r.process.err
}

func (r *Replica) opsURL(path string) string {
	scheme := "http"
	if r.tls {
		scheme = "https"
	}
	return Loopback(scheme, r.opsPort, path)
}

// Ready says whether /readyz answers 200.
func (r *Replica) Ready() bool {
	_, err := get(r.opsURL("/readyz"))
	return err == nil
}

// Alive says whether /livez answers 200.
func (r *Replica) Alive() bool {
	_, err := get(r.opsURL("/livez"))
	return err == nil
}

// Pid is the replica's process.
func (r *Replica) Pid() int { return r.process.cmd.Process.Pid }

// LeaderMetric is the replica's berth_leader.
func (r *Replica) LeaderMetric() float64 {
	r.s.T.Helper()
	metrics, err := r.Metrics()
	must(r.s.T, err)
	return metrics["berth_leader"]
}

// Metrics reads the replica's metrics.
func (r *Replica) Metrics() (Metrics, error) {
	body, err := getAs(r.opsURL("/metrics"), r.s.opsToken())
	if err != nil {
		return nil, err
	}
	return parseMetrics(body)
}

// Leads asks the replica itself whether it leads.
func (r *Replica) Leads() bool {
	body, err := getAs(r.opsURL("/debug/leadership"), r.s.opsToken())
	if err != nil {
		return false
	}
	var status struct{ Leading bool }
	return json.Unmarshal(body, &status) == nil && status.Leading
}

// Post sends a verb to the replica directly, past the Service.
func (r *Replica) Post(verb, body string) *http.Response {
	r.s.T.Helper()
	return postVerb(r.s.T, r.verbURL, verb, body)
}

// Writes makes a rule for the replica's requests with that method; see Rule for
// the rest.
func (r *Replica) Writes(rule *Rule) *Rule {
	also := rule.Match
	rule.Match = func(request *http.Request, body []byte) bool {
		return request.Header.Get(replicaHeader) == r.Name && (also == nil || also(request, body))
	}
	return r.s.Proxy.Add(rule)
}

// Labelled says whether the replica's Pod carries the leader's label.
func (r *Replica) Labelled() bool {
	pod := r.s.observer.pod(types.NamespacedName{Namespace: SystemNamespace, Name: r.Name})
	return pod != nil && pod.Labels[leaderLabel] == "true"
}

// Label puts the leader's label on the replica's Pod by hand, or takes it off.
func (r *Replica) Label(on bool) {
	r.s.T.Helper()
	value := "null"
	if on {
		value = `"true"`
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, leaderLabel, value)
	_, err := r.s.Client.CoreV1().Pods(SystemNamespace).Patch(r.s.ctx, r.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(r.s.T, err)
}

// leader is the only replica whose Pod carries the label, or nil.
func (s *Scenario) leader() *Replica {
	if s.Deployed != nil {
		return onlyLabelled(s.Deployed.Berths())
	}
	return onlyLabelled(s.Replicas)
}

func onlyLabelled(replicas []*Replica) (leader *Replica) {
	for _, r := range replicas {
		if !r.Labelled() {
			continue
		}
		if leader != nil {
			return nil
		}
		leader = r
	}
	return leader
}

// Leader waits until one replica leads and is labelled, and returns it and the
// other one.
func (s *Scenario) Leader() (leader, follower *Replica) {
	s.T.Helper()
	Eventually(s.T, 2*Timeout, "one replica leads", func() error {
		leader = s.leader()
		return Unless(leader != nil && leader.Leads(), "nobody does")
	})
	replicas := s.Replicas
	if s.Deployed != nil {
		replicas = s.Deployed.Berths()
	}
	for _, r := range replicas {
		if r != leader {
			follower = r
		}
	}
	return leader, follower
}

// Lease returns the Lease that the replicas elect by.
func (s *Scenario) Lease() *coordinationv1.Lease {
	s.T.Helper()
	lease, err := s.Client.CoordinationV1().Leases(SystemNamespace).Get(s.ctx, leaseName, GetOptions)
	must(s.T, err)
	return lease
}

// TakeLease makes somebody else the holder of the Lease, for so many seconds; ""
// releases it.
func (s *Scenario) TakeLease(holder string, seconds int) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":%d}}`, holder, seconds)
	_, err := s.Client.CoordinationV1().Leases(SystemNamespace).Patch(s.ctx, leaseName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.T, err)
}

// DeleteLease deletes the Lease.
func (s *Scenario) DeleteLease() {
	s.T.Helper()
	must(s.T, s.Client.CoordinationV1().Leases(SystemNamespace).Delete(s.ctx, leaseName, metav1.DeleteOptions{}))
}

// finishReplicas ends them all, stopped ones too.
func (s *Scenario) finishReplicas() {
	for _, r := range s.Replicas {
		if s.T.Failed() && r.process != nil {
			s.T.Logf("%s ends:\n%s", r.Name, tail(r.process.log, 4000))
		}
		r.process.Kill()
	}
	if s.Service != nil {
		s.Service.close()
	}
}

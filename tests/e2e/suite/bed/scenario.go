package bed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// DefaultSampling leaves percentageOfNodesToScore to kube-scheduler.
const DefaultSampling = -1

// Options is how a scenario differs from the documented set-up.
type Options struct {
	// Policy is Berth's policy file; "" starts it without one.
	Policy string
	// Flags are further arguments of berth serve.
	Flags []string

	// Extender is the URL of an extender that takes Berth's place.
	Extender string
	// NoExtender runs kube-scheduler alone.
	NoExtender bool
	// Managed and Ignored are resources managed beside nvidia.com/gpu: counted
	// by kube-scheduler, and not.
	Managed, Ignored []string
	// Before and After are extender entries around Berth's.
	Before, After []configv1.Extender
	// Extenders makes the whole list from Berth's URL; it replaces the above.
	Extenders func(url string) []configv1.Extender

	// Sampling is percentageOfNodesToScore: 0 means 100, DefaultSampling
	// leaves the key out.
	Sampling int
	// HTTPTimeout of Berth's entry, 30 s unless given.
	HTTPTimeout time.Duration
	// LogLevel is kube-scheduler's -v, 2 unless given.
	LogLevel int
	// Join is how long nodes that a scenario file adds keep the taint that the
	// API server gives every new node.
	Join time.Duration
	// SchedulerFlags are further arguments of kube-scheduler.
	SchedulerFlags []string
	// SchedulerConfig is more YAML at the top level of kube-scheduler's config.
	SchedulerConfig string

	// OpsTLS serves Berth's operations port with the bed's certificate.
	OpsTLS bool
	// RecordVerbs puts a recorder between kube-scheduler and Berth.
	RecordVerbs bool
	// Replicas runs so many Berths that elect a leader, behind a Service, instead
	// of one that leads from the start.
	Replicas int
	// Deployments runs the pods of Deployments in Berth's namespace; it has the
	// program for each image but kube-scheduler's. Berth starts when one is made.
	Deployments map[string]string
	// Prepare is called in the empty cluster, before anything starts.
	Prepare func(*Scenario)
	// Controllers runs kube-controller-manager, for tests with Jobs whose pods
	// succeed at once.
	Controllers bool
	// Jobs runs it, too; pods of Jobs run until the test ends them.
	Jobs bool
}

// Scenario is one test's cluster: empty at first, with its own scheduler and
// Berth.
type Scenario struct {
	T       testing.TB
	Client  kubernetes.Interface
	Proxy   *Proxy // between Berth and the API server
	Verbs   *Verbs // with Options.RecordVerbs
	Kubelet *Kubelet

	Replicas []*Replica // with Options.Replicas
	Service  *Service   // likewise, and with Options.Deployments
	Deployed *Deployed  // with Options.Deployments

	bed       *Bed
	options   Options
	ctx       context.Context
	dir       string
	observer  *observer
	scheduler *Process
	berth     *Process
	verbPort  int
	opsPort   int
	markers   int
	join      time.Duration // Options.Join, once the first nodes are there
}

// Scenario empties the cluster and starts a scheduler and Berth for a test. All
// is ended with the test.
func (b *Bed) Scenario(t testing.TB, o Options) *Scenario {
	t.Helper()
	if o.Sampling == 0 {
		o.Sampling = 100
	}
	if o.LogLevel == 0 {
		o.LogLevel = 2
	}
	if o.HTTPTimeout == 0 {
		o.HTTPTimeout = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Scenario{T: t, Client: b.Client, Proxy: b.Proxy, bed: b, options: o, ctx: ctx}
	t.Cleanup(func() {
		s.finish()
		cancel()
		if s.Kubelet != nil {
			s.Kubelet.done.Wait()
		}
		if s.Deployed != nil {
			s.Deployed.running.Wait()
		}
	})
	s.dir = filepath.Join(b.dir, strings.ReplaceAll(t.Name(), "/", "."))
	must(t, os.MkdirAll(s.dir, 0o755))
	must(t, b.clean(ctx))
	if o.Prepare != nil {
		o.Prepare(s)
	}

	var watchers []func(*corev1.Pod)
	switch {
	case o.Controllers, o.Jobs:
		must(t, b.startControllers())
		s.Kubelet = NewKubelet(ctx, b.Client, o.Controllers, nil)
		watchers = append(watchers, s.Kubelet.Observe)
	case o.Deployments != nil:
		must(t, b.startControllers(deploymentControllers...))
		s.Deployed = newDeployed(s)
		s.Service = newTLSService(s)
		s.Kubelet = NewKubelet(ctx, b.Client, false, s.Deployed.owns)
		watchers = append(watchers, s.Kubelet.Observe, s.Deployed.observe)
	default:
		s.Kubelet = NewKubelet(ctx, b.Client, false, nil)
		watchers = append(watchers, s.Kubelet.Observe)
	}
	var err error
	s.observer, err = newObserver(ctx, b.Client, watchers...)
	must(t, err)
	s.verbPort, err = freePort()
	must(t, err)
	s.opsPort, err = freePort()
	must(t, err)

	if s.hasBerth() {
		if o.Policy != "" {
			s.WritePolicy(o.Policy)
		}
		if o.Replicas > 0 {
			must(t, s.startReplicas(o.Replicas))
		} else {
			s.StartBerth()
		}
		if o.RecordVerbs {
			s.Verbs, err = newVerbs(Loopback("http", s.verbPort, ""))
			must(t, err)
		}
	}
	s.StartScheduler()
	return s
}

func (s *Scenario) hasBerth() bool {
	return s.options.Extender == "" && !s.options.NoExtender && s.options.Deployments == nil
}

// extenderURL is where kube-scheduler finds Berth or its stand-in.
func (s *Scenario) extenderURL() string {
	switch {
	case s.options.NoExtender, s.options.Deployments != nil:
		return "" // the cluster's own scheduler is untouched
	case s.options.Extender != "":
		return s.options.Extender
	case s.Service != nil:
		return s.Service.server.URL
	case s.Verbs != nil:
		return s.Verbs.server.URL
	default:
		return Loopback("http", s.verbPort, "")
	}
}

// finish checks what must hold in every scenario and ends its processes.
func (s *Scenario) finish() {
	if s.observer != nil {
		s.observer.mu.Lock()
		for _, violation := range s.observer.violations {
			s.T.Errorf("devices given twice: %s", violation)
		}
		s.observer.mu.Unlock()
		s.observer.stop()
	}
	if s.berth != nil {
		select {
		case <-s.berth.done:
			// Death by SIGKILL is what tests ask for; nothing else is.
			if status, ok := s.berth.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
				s.T.Errorf("berth had ended: %v", s.berth.err)
			}
		default:
		}
	}
	if s.T.Failed() && s.berth != nil {
		s.T.Logf("logs: %s; berth's ends:\n%s", s.dir, tail(s.berth.log, 4000))
	}
	s.Proxy.Clear()
	s.scheduler.Kill()
	s.Verbs.close()
	s.berth.Kill()
	s.finishReplicas()
	s.bed.stopControllers()
}

// RestartAPIServer ends the API server at once and brings it back.
func (s *Scenario) RestartAPIServer() {
	s.T.Helper()
	must(s.T, s.bed.RestartAPIServer())
}

// WithoutAPIServer ends the API server, and brings it back when do has returned.
func (s *Scenario) WithoutAPIServer(do func()) {
	s.T.Helper()
	s.bed.apiserver.Kill()
	defer func() { must(s.T, s.bed.startAPIServer()) }()
	do()
}

// Namespace makes a namespace.
func (s *Scenario) Namespace(name string) {
	s.T.Helper()
	must(s.T, s.bed.ensureNamespace(s.ctx, name))
}

// Context ends with the scenario.
func (s *Scenario) Context() context.Context { return s.ctx }

// Delete deletes pods with their grace period, as a user does.
func (s *Scenario) Delete(pods ...*corev1.Pod) { s.delete(metav1.DeleteOptions{}, pods) }

// DeleteNow deletes pods without a grace period.
func (s *Scenario) DeleteNow(pods ...*corev1.Pod) { s.delete(deleteNow, pods) }

func (s *Scenario) delete(options metav1.DeleteOptions, pods []*corev1.Pod) {
	s.T.Helper()
	must(s.T, each(pods, func(pod *corev1.Pod) error {
		return ignoreMissing(s.Client.CoreV1().Pods(pod.Namespace).Delete(s.ctx, pod.Name, options))
	}))
}

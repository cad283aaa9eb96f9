package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deploymentControllers make the pods of Deployments, and empty namespaces.
var deploymentControllers = []string{"deployment-controller", "replicaset-controller", "namespace-controller"}

// Deployed plays the kubelet for Deployments in Berth's namespace: their pods,
// made by Kubernetes' own controllers and bound by the cluster's scheduler, run
// here as processes with the shipped arguments, Secrets and ConfigMaps, until
// they are deleted. A Service before Berth's pods is played too.
type Deployed struct {
	s        *Scenario
	programs map[string]string // by image
	running  sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*deployedPod
}

func newDeployed(s *Scenario) *Deployed {
	return &Deployed{s: s, programs: s.options.Deployments, pods: map[types.UID]*deployedPod{}}
}

// owns says whether a pod is one of a Deployment in Berth's namespace.
func (d *Deployed) owns(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Namespace == SystemNamespace && owner != nil && owner.Kind == "ReplicaSet"
}

// observe starts a pod that has got its node, and ends one that is deleted.
func (d *Deployed) observe(pod *corev1.Pod) {
	if !d.owns(pod) || pod.Spec.NodeName == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pods[pod.UID]
	if p == nil {
		p = &deployedPod{Replica: &Replica{Name: pod.Name, s: d.s, tls: true}, pod: pod, deleted: make(chan struct{})}
		d.pods[pod.UID] = p
		d.running.Go(func() { p.live(d) })
	}
	if pod.DeletionTimestamp != nil {
		p.once.Do(func() { close(p.deleted) })
	}
}

// Berths are the replicas of Berth that run now, by name.
func (d *Deployed) Berths() (replicas []*Replica) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pods {
		if p.isBerth() && p.process != nil {
			replicas = append(replicas, p.Replica)
		}
	}
	slices.SortFunc(replicas, func(a, b *Replica) int { return strings.Compare(a.Name, b.Name) })
	return replicas
}

// deployedPod is one pod and its process.
type deployedPod struct {
	*Replica // what tests know of a Berth's pod
	pod      *corev1.Pod
	deleted  chan struct{}
	once     sync.Once
	mounts   []*projection
	ports    map[string]int // by name
}

func (p *deployedPod) isBerth() bool { return p.pod.Labels[berthAppName] == "berth" }

// live is the pod's whole life.
func (p *deployedPod) live(d *Deployed) {
	process, err := p.run(d)
	if err != nil {
		if d.s.ctx.Err() == nil {
			d.s.T.Errorf("pod %s: %v", p.pod.Name, err)
		}
		return
	}
	defer process.Kill()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ready := false; ; {
		select {
		case <-d.s.ctx.Done():
			return
		case <-p.deleted:
			p.finish(d, process)
			return
		case <-process.done:
			select {
			case <-p.deleted:
			case <-d.s.ctx.Done():
			default:
				d.s.T.Errorf("the container of pod %s has ended: %v", p.pod.Name, process.err)
			}
			p.report(false)
			select {
			case <-p.deleted:
				p.finish(d, process)
			case <-d.s.ctx.Done():
			}
			return
		case <-tick.C:
			for _, mount := range p.mounts {
				_ = mount.sync(d.s) // a kubelet keeps what it has, too
			}
			if now := p.probe(); now != ready {
				ready = now
				p.report(ready)
			}
		}
	}
}

// run starts the container's process.
func (p *deployedPod) run(d *Deployed) (*Process, error) {
	s, container := d.s, p.pod.Spec.Containers[0]
	dir := filepath.Join(s.dir, p.pod.Name)
	var replace []string // pairs: what is written, what stands for it here
	for _, mount := range container.VolumeMounts {
		projected, err := newProjection(p.pod, mount, filepath.Join(dir, mount.Name))
		if err != nil {
			return nil, err
		}
		if projected == nil {
			continue
		}
		p.mounts = append(p.mounts, projected)
		replace = append(replace, mount.MountPath, projected.dir)
	}
	p.ports = map[string]int{}
	for _, port := range container.Ports {
		free, err := freePort()
		if err != nil {
			return nil, err
		}
		p.ports[port.Name] = free
		replace = append(replace, fmt.Sprintf("listen=:%d", port.ContainerPort), "listen="+Address(free),
			fmt.Sprintf("--secure-port=%d", port.ContainerPort), fmt.Sprintf("--secure-port=%d", free))
	}
	kubeconfig, err := s.accountKubeconfig(p.pod.Namespace, p.pod.Spec.ServiceAccountName, p.pod.Name, s.Proxy.URL()+replicaPath+p.pod.Name)
	if err != nil {
		return nil, err
	}
	texts := append([]string{"https://berth.berth-system.svc:443", s.Service.URL(), "clientConnection:", "clientConnection:\n  kubeconfig: " + kubeconfig}, replace...)
	for _, mount := range p.mounts {
		mount.texts = strings.NewReplacer(texts...)
		// Like a pod that waits for a Secret that is not there yet.
		if err := poll(Timeout, func() error { return mount.sync(s) }); err != nil {
			return nil, err
		}
	}
	args := strings.Split(strings.NewReplacer(replace...).Replace(strings.Join(container.Args, "\n")), "\n")
	program, more := d.programs[container.Image], []string{"--kubeconfig", kubeconfig}
	if len(container.Command) > 0 && container.Command[0] == "kube-scheduler" {
		program, more = s.KubeScheduler(), []string{"--bind-address=" + loopback}
	}
	if program == "" {
		return nil, fmt.Errorf("no program stands for the image %s", container.Image)
	}
	env := []string{"POD_NAME=" + p.pod.Name, "POD_NAMESPACE=" + p.pod.Namespace}
	process, err := startProcess(s.dir, p.pod.Name, "/usr/bin/env", slices.Concat(env, []string{program}, args, more)...)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.process, p.verbPort, p.opsPort = process, p.ports["verbs"], p.ports["ops"]
	p.verbURL = Loopback("https", p.verbPort, "")
	return process, nil
}

// probe asks what the readiness probe of the container asks.
func (p *deployedPod) probe() bool {
	probe := p.pod.Spec.Containers[0].ReadinessProbe.HTTPGet
	_, err := get(Loopback(strings.ToLower(string(probe.Scheme)), p.ports[probe.Port.StrVal], probe.Path))
	return err == nil
}

// report writes the pod's status.
func (p *deployedPod) report(ready bool) {
	status := "False"
	if ready {
		status = "True"
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, status, now)
	_, _ = p.s.Client.CoreV1().Pods(p.pod.Namespace).Patch(p.s.ctx, p.pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
}

// finish ends the container as a kubelet does, and lets the pod go.
func (p *deployedPod) finish(d *Deployed, process *Process) {
	process.Stop(time.Duration(*p.pod.Spec.TerminationGracePeriodSeconds) * time.Second)
	d.mu.Lock()
	p.process = nil // the pod stays known: later news of it start nothing
	d.mu.Unlock()
	options := metav1.DeleteOptions{GracePeriodSeconds: &atOnce, Preconditions: metav1.NewUIDPreconditions(string(p.pod.UID))}
	_ = d.s.Client.CoreV1().Pods(p.pod.Namespace).Delete(d.s.ctx, p.pod.Name, options)
}

// projection is a Secret or a ConfigMap as files, which change with it, all at
// once by one link.
type projection struct {
	namespace, name string
	secret          bool
	dir             string
	texts           *strings.Replacer // for ConfigMaps
	version         string
}

// newProjection is nil for other kinds of volumes.
func newProjection(pod *corev1.Pod, mount corev1.VolumeMount, dir string) (*projection, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if i < 0 {
		return nil, fmt.Errorf("no volume %s", mount.Name)
	}
	switch volume := pod.Spec.Volumes[i]; {
	case volume.Secret != nil:
		return &projection{namespace: pod.Namespace, name: volume.Secret.SecretName, secret: true, dir: dir}, nil
	case volume.ConfigMap != nil:
		return &projection{namespace: pod.Namespace, name: volume.ConfigMap.Name, dir: dir}, nil
	}
	return nil, nil
}

// sync writes the files again if the object has changed.
func (p *projection) sync(s *Scenario) error {
	version, files, err := p.read(s)
	if err != nil || version == p.version {
		return err
	}
	fresh := filepath.Join(p.dir, "..v"+version)
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(fresh, name), data, 0o600); err != nil {
			return err
		}
		if link := filepath.Join(p.dir, name); p.version == "" {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				return err
			}
		}
	}
	next := filepath.Join(p.dir, "..data_tmp")
	if err := os.Symlink("..v"+version, next); err != nil {
		return err
	}
	p.version = version
	return os.Rename(next, filepath.Join(p.dir, "..data"))
}

func (p *projection) read(s *Scenario) (version string, files map[string][]byte, err error) {
	if p.secret {
		secret, err := s.Client.CoreV1().Secrets(p.namespace).Get(s.ctx, p.name, GetOptions)
		if err != nil {
			return "", nil, err
		}
		return secret.ResourceVersion, secret.Data, nil
	}
	configMap, err := s.Client.CoreV1().ConfigMaps(p.namespace).Get(s.ctx, p.name, GetOptions)
	if err != nil {
		return "", nil, err
	}
	files = map[string][]byte{}
	for name, text := range configMap.Data {
		files[name] = []byte(p.texts.Replace(text))
	}
	return configMap.ResourceVersion, files, nil
}

// Image is the image of a deployed replica's pod.
func (r *Replica) Image() string {
	pod := r.s.observer.pod(types.NamespacedName{Namespace: SystemNamespace, Name: r.Name})
	if pod == nil {
		return ""
	}
	return pod.Spec.Containers[0].Image
}

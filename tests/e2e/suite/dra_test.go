package suite

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

const draDriver = "gpu.test"

// gpuClass maps nvidia.com/gpu to the driver's devices, as NVIDIA's chart does.
func gpuClass(s *bed.Scenario, selector string) {
	s.T.Helper()
	resource := string(bed.GPU)
	created, err := s.Client.ResourceV1().DeviceClasses().Create(s.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: draDriver},
		Spec: resourcev1.DeviceClassSpec{
			ExtendedResourceName: &resource,
			Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { cleanDRA(s) })
	if created.Spec.ExtendedResourceName == nil {
		s.T.Skip("not run: DRAExtendedResource, on by default from Kubernetes 1.36, is off")
	}
}

// cleanDRA removes what the bed does not know of.
func cleanDRA(s *bed.Scenario) {
	ctx, api := context.Background(), s.Client.ResourceV1()
	claims, err := api.ResourceClaims(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.T.Error(err)
		return
	}
	for _, claim := range claims.Items {
		dropClaim(ctx, s, claim.Name)
	}
	if err := api.ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.T.Error(err)
	}
	if err := api.DeviceClasses().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.T.Error(err)
	}
}

// dropClaim deletes a claim without the controller that would take it back.
func dropClaim(ctx context.Context, s *bed.Scenario, name string) {
	claims := s.Client.ResourceV1().ResourceClaims(corev1.NamespaceDefault)
	_, err := claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		err = claims.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		s.T.Error(err)
	}
}

// publish makes n devices known on a node.
func publish(s *bed.Scenario, node string, n int) {
	s.T.Helper()
	s.Published(node, bed.GPU, n)
	gpu := "gpu"
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: draDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for i := range n {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &gpu}},
		})
	}
	if _, err := s.Client.ResourceV1().ResourceSlices().Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.T.Fatal(err)
	}
}

const gpuSelector = `device.driver == "gpu.test" && device.attributes["gpu.test"].type == "gpu"`

// Nodes that list no GPU, but whose driver publishes them, have as many as it
// says: a gang that needs all of them starts whole, and the next pod waits.
func TestDRACountsPublishedDevices(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	gpuClass(s, gpuSelector)
	nodes := s.Nodes(2).Create()
	early := s.Pod("early").GPUs(1).Gated().Create()
	s.WhyIs(early, "NeverFits", "InsufficientDevices")
	for _, node := range nodes {
		publish(s, node, 4)
	}
	s.AllBound(early, s.Pod("solo").GPUs(3).Create())
	s.AllBound(s.Pod("g").GPUs(1).Gang("g", 4).Gated().CreateN(4)...)
	next := s.Pod("next").GPUs(1).Gated().Create()
	s.WhyIs(next, "InsufficientDevices")
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	s.WhyIs(next, "InsufficientDevices")
	s.NoneBound(next)
}

// A pod that claims a device by hand never reaches Berth; what it was given is
// nobody else's, and is there again when the claim is gone.
func TestDRAClaimedDevicesAreNotGivenTwice(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	gpuClass(s, gpuSelector)
	publish(s, s.Nodes(1).Create()[0], 4)
	claims := s.Client.ResourceV1().ResourceClaims(corev1.NamespaceDefault)
	_, err := claims.Create(s.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: corev1.NamespaceDefault},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: draDriver},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holder := s.Pod("holder").Build()
	name := "by-hand"
	holder.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	holder.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	holder, err = s.Client.CoreV1().Pods(holder.Namespace).Create(s.Context(), holder, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.AllBound(holder)

	gang := s.Pod("g").GPUs(1).Gang("g", 4).Gated().CreateN(4)
	s.WhyIs(gang[0], "NeverFits", "InsufficientDevices")
	s.NoneBound(gang...)
	s.DeleteNow(holder)
	dropClaim(s.Context(), s, name)
	s.AllBound(gang...)
}

// A class whose selector only CEL can judge counts for nothing, and a metric
// says that there is one.
func TestDRAUnknownSelectorIsTold(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	gpuClass(s, `device.driver.startsWith("gpu")`)
	publish(s, s.Nodes(1).Create()[0], 4)
	bed.Eventually(t, bed.Timeout, "the class is counted as ignored", func() error {
		got, _ := s.Metrics().Sum("berth_dra_ignored", `reason="class_selector"`)
		return bed.Unless(got == 1, "berth_dra_ignored is %v", got)
	})
}

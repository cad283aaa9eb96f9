package suite

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// Berth's own token ends, as the one that a kubelet puts into its pod does: with
// an old one nothing is bound, and as soon as the file has a new one Berth goes
// on, without a restart.
func TestOwnTokenExpires(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(1).GPUs(8).Create()
	s.StopBerth()
	account := s.Account(bed.SystemNamespace, "berth")
	// The API server grants a minute beyond the end.
	short := account.TokenUntil(time.Now().Add(-40 * time.Second))
	token := s.WriteFile("own/token", short)
	kubeconfig := withTokenFile(t, s, token)
	verbs, ops := s.Ports()
	s.Container("berth-by-token", []string{"serve", "--leader-elect=false", fmt.Sprintf("--listen=127.0.0.1:%d", verbs),
		fmt.Sprintf("--ops-listen=127.0.0.1:%d", ops)}).
		Start(s.Berth(), bed.Loopback("http", ops, "/readyz"), "--kubeconfig", kubeconfig)
	s.AllBound(s.Pod("before").GPUs(1).Create())

	ends := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: short}}
	bed.Eventually(t, 3*bed.Timeout, "the token has ended", func() error {
		review, err := s.Client.AuthenticationV1().TokenReviews().Create(s.Context(), ends, metav1.CreateOptions{})
		return bed.Unless(err == nil && !review.Status.Authenticated, "%+v, %v", review, err)
	})
	waits := s.Pod("waits").GPUs(1).Create()
	s.NoneBound(waits)
	// As a kubelet does: another file in its place.
	if err := os.Rename(s.WriteFile("own/next", account.Token()), token); err != nil {
		t.Fatal(err)
	}
	s.AllBoundWithin(2*bed.Timeout, waits)
	s.AllBound(s.Pod("after").GPUs(2).Gang("after", 2).Gated().CreateN(2)...)
}

// withTokenFile is the administrator's kubeconfig with another token, from a file.
func withTokenFile(t *testing.T, s *bed.Scenario, file string) string {
	t.Helper()
	text, err := os.ReadFile(s.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^    token: .*$`)
	if len(line.FindAll(text, -1)) != 1 {
		t.Fatalf("not one token in\n%s", text)
	}
	return s.WriteFile("own/kubeconfig", line.ReplaceAllLiteralString(string(text), "    tokenFile: "+file))
}

package suite

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// overTLS makes kube-scheduler's entry for Berth, with a certificate of its own
// where one is given.
func overTLS(issuer *bed.Issuer, client bed.Pair) func(string) []configv1.Extender {
	return func(url string) []configv1.Extender {
		e := bed.BerthExtender(strings.Replace(url, "http:", "https:", 1), bed.Options{HTTPTimeout: 30 * time.Second})
		e.EnableHTTPS = true
		e.TLSConfig = &configv1.ExtenderTLSConfig{CAData: issuer.CA(), CertData: client.Cert, KeyData: client.Key}
		return []configv1.Extender{e}
	}
}

func tlsFlags(m *bed.Mount) []string {
	return []string{"--tls-cert-file", m.File("tls.crt"), "--tls-private-key-file", m.File("tls.key")}
}

func mutualFlags(m *bed.Mount, names string) []string {
	return append(tlsFlags(m), "--client-ca-file", m.File("ca.crt"), "--client-allowed-names", names)
}

// schedulerName is kube-scheduler's identity in a cluster made by kubeadm.
const schedulerName = "system:kube-scheduler"

// failedVerbs lists what kube-scheduler or Berth saw go wrong with a call about one
// of these pods, each of which has room.
func failedVerbs(t *testing.T, s *bed.Scenario, pods []*corev1.Pod) (failed []string) {
	t.Helper()
	events, err := s.Client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ours := map[types.UID]bool{}
	for _, pod := range pods {
		ours[pod.UID] = true
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && ours[e.Regarding.UID] {
			failed = append(failed, fmt.Sprintf("event %s %s: %s", e.Regarding.Name, e.Reason, e.Note))
		}
	}
	for series, n := range s.Metrics() {
		request := strings.HasPrefix(series, "berth_request_duration_seconds_count") && !strings.Contains(series, `code="200"`)
		edge := strings.HasPrefix(series, "berth_http_events_total") && strings.Contains(series, `listener="verbs"`)
		if (request || edge) && n > 0 {
			failed = append(failed, fmt.Sprintf("%s %v", series, n))
		}
	}
	// As a word: the certificates that the log shows may contain any letters.
	for _, line := range regexp.MustCompile(`(?m)^.*(tls: |x509: |\bEOF\b|connection reset|broken pipe|[Ee]xtender.*(failed|error)).*$`).FindAllString(s.SchedulerLog(), -1) {
		failed = append(failed, line)
	}
	return failed
}

// Certificates change all the time while the stock kube-scheduler binds pods over
// TLS: by a Secret's link, by files that are overwritten one after the other, and
// to bad ones in between. No verb fails, and the last good one is served.
func TestCertificateRotationUnderLoad(t *testing.T) {
	for name, mutual := range map[string]bool{"TLS": false, "mutual TLS": true} {
		t.Run(name, func(t *testing.T) {
			issuer := bed.NewIssuer(t)
			var client bed.Pair
			if mutual {
				client = issuer.Issue(bed.Leaf{CommonName: schedulerName})
			}
			serving := func() bed.Pair { return issuer.Issue(bed.Leaf{CommonName: "berth"}) }
			m := bed.NewMount(t, serving(), issuer.CA())
			flags := tlsFlags(m)
			if mutual {
				flags = mutualFlags(m, schedulerName)
			}
			s := control.Scenario(t, bed.Options{Flags: flags, Extenders: overTLS(issuer, client)})
			s.Nodes(100).GPUs(8).Create()

			bad := []bed.Pair{
				{Cert: serving().Cert, Key: serving().Key}, // another's key
				{Cert: []byte("nonsense"), Key: serving().Key},
				issuer.Issue(bed.Leaf{CommonName: "berth", Until: time.Now().Add(-time.Minute)}),
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			rotated := make(chan bed.Pair, 1)
			go func() {
				defer close(rotated)
				// Longer than Berth's look at the files, so that each is seen.
				tick := time.NewTicker(1200 * time.Millisecond)
				defer tick.Stop()
				for i := 0; ; i++ {
					good := serving()
					switch i % 4 {
					case 0:
						m.Put(good, issuer.CA())
					case 1:
						m.Put(bad[i/4%len(bad)], issuer.CA())
					case 2:
						m.Overwrite(good)
					case 3:
						m.Put(good, issuer.CA())
						if i > 12 || ctx.Err() != nil {
							rotated <- good
							return
						}
					}
					<-tick.C
				}
			}()
			var pods []*corev1.Pod
			var last bed.Pair
			for i := 0; last.Cert == nil; i++ {
				pods = append(pods, s.Pod(fmt.Sprintf("p-%d", i)).GPUs(1).Create())
				select {
				case last = <-rotated:
				case <-time.After(30 * time.Millisecond):
				}
			}
			s.AllBound(pods...)
			bed.Eventually(t, bed.Timeout, "the last certificate is served", func() error {
				return bed.Unless(bytes.Equal(s.ServedCertificate(client), last.Cert), "it is another one")
			})
			metrics := s.Metrics()
			if metrics[`berth_tls_last_reload_successful{listener="verbs"}`] != 1 {
				t.Error("the last reload was not successful")
			}
			if expiry := metrics[`berth_tls_certificate_expiry_timestamp_seconds{listener="verbs"}`]; expiry < float64(time.Now().Unix()) {
				t.Errorf("the certificate expires at %v", expiry)
			}
			log := s.BerthLog()
			taken, refused := strings.Count(log, `"certificate in force"`), strings.Count(log, `"certificate files refused`)
			if taken < 8 || refused < 3 {
				t.Errorf("%d were taken, %d refused", taken, refused)
			}
			for _, failed := range failedVerbs(t, s, pods) {
				t.Error(failed)
			}
			t.Logf("%d pods bound, %d certificates taken, %d refused", len(pods), taken, refused)
		})
	}
}

// Only who has a certificate of the CA with an allowed name may call the verbs.
func TestMutualTLSAsksForAName(t *testing.T) {
	issuer := bed.NewIssuer(t)
	m := bed.NewMount(t, issuer.Issue(bed.Leaf{CommonName: "berth"}), issuer.CA())
	for name, c := range map[string]struct {
		client bed.Pair
		log    string
	}{
		"another name":          {issuer.Issue(bed.Leaf{CommonName: "system:kube-controller-manager"}), "none of the allowed names"},
		"no certificate":        {bed.Pair{}, "did not return a certificate"},
		"an expired one":        {issuer.Issue(bed.Leaf{CommonName: schedulerName, Until: time.Now().Add(-time.Minute)}), "certificate has expired"},
		"one of another issuer": {bed.NewIssuer(t).Issue(bed.Leaf{CommonName: schedulerName}), "certificate is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Flags: mutualFlags(m, schedulerName), Extenders: overTLS(issuer, c.client)})
			s.Nodes(1).GPUs(8).Create()
			pod := s.Pod("one").GPUs(1).Create()
			bed.Eventually(t, bed.Timeout, "a handshake is refused", func() error {
				return bed.Unless(s.Metrics()[`berth_http_events_total{event="tls_refused",listener="verbs"}`] > 0 &&
					strings.Contains(s.BerthLog(), c.log), "log: %.300s", s.BerthLog())
			})
			s.NoneBound(pod)
			if n := s.Metrics()[`berth_request_duration_seconds_count{code="200",verb="filter"}`]; n != 0 {
				t.Errorf("%v filter calls were answered", n)
			}
		})
	}
}

// Unknown clients that connect to every port, say nothing, and come again when they are
// sent away, keep neither kube-scheduler nor kubelets out.
func TestPortsFullOfIdleClients(t *testing.T) {
	issuer := bed.NewIssuer(t)
	m := bed.NewMount(t, issuer.Issue(bed.Leaf{CommonName: "berth"}), issuer.CA())
	health := bed.FreeAddress(t)
	s := control.Scenario(t, bed.Options{
		Flags:     append(mutualFlags(m, schedulerName), "--health-listen", health),
		Extenders: overTLS(issuer, issuer.Issue(bed.Leaf{CommonName: schedulerName})),
	})
	s.Nodes(4).GPUs(8).Create()
	verbs, ops := s.Ports()
	var opened atomic.Int64
	for address, atOnce := range map[string]int{
		fmt.Sprintf("127.0.0.1:%d", verbs): 5000, // more than gang.maxStanding + 128
		fmt.Sprintf("127.0.0.1:%d", ops):   200,
		health:                             200,
	} {
		ring := make([]net.Conn, atOnce)
		var done sync.WaitGroup
		stop := make(chan struct{})
		done.Add(1)
		go func() {
			defer done.Done()
			for i := 0; ; i = (i + 1) % atOnce {
				select {
				case <-stop:
					return
				default:
				}
				if ring[i] != nil {
					ring[i].Close()
				}
				ring[i], _ = net.DialTimeout("tcp", address, time.Second)
				if opened.Add(1) > 7000 {
					time.Sleep(2 * time.Millisecond) // 500 a second from then on
				}
			}
		}()
		t.Cleanup(func() {
			close(stop)
			done.Wait()
			for _, connection := range ring {
				if connection != nil {
					connection.Close()
				}
			}
		})
	}
	bed.Eventually(t, bed.Timeout, "the ports are full", func() error {
		return bed.Unless(opened.Load() > 7000, "%d opened", opened.Load())
	})
	s.AllBound(s.Pod("p").GPUs(2).CreateN(16)...)
	for range 10 {
		for _, path := range []string{"livez", "readyz"} {
			response, err := (&http.Client{Timeout: time.Second}).Get("http://" + health + "/" + path)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, response.Status)
			}
		}
	}
	if n := s.Metrics()[`berth_http_events_total{event="shed",listener="verbs"}`]; n == 0 {
		t.Error("nobody was sent away")
	}
}

// A certificate that kube-scheduler refuses: pods with devices wait, others run;
// once it is replaced, without a restart of anything, they go on.
func TestServingCertificateThatIsRefused(t *testing.T) {
	issuer := bed.NewIssuer(t)
	for name, bad := range map[string]bed.Pair{
		"for another name": issuer.Issue(bed.Leaf{CommonName: "berth", DNSNames: []string{"elsewhere.example.com"}}),
		"of another CA":    bed.NewIssuer(t).Issue(bed.Leaf{CommonName: "berth"}),
		"soon expired":     issuer.Issue(bed.Leaf{CommonName: "berth", Until: time.Now().Add(3 * time.Second)}),
	} {
		t.Run(name, func(t *testing.T) {
			m := bed.NewMount(t, bad, issuer.CA())
			if name == "soon expired" {
				m.Put(issuer.Issue(bed.Leaf{CommonName: "berth", Until: time.Now().Add(2 * time.Second)}), issuer.CA())
			}
			s := control.Scenario(t, bed.Options{Flags: tlsFlags(m), Extenders: overTLS(issuer, bed.Pair{})})
			s.Nodes(1).GPUs(8).Create()
			if name == "soon expired" {
				bed.Eventually(t, bed.Timeout, "it has expired", func() error {
					return bed.Unless(s.Metrics()[`berth_tls_last_reload_successful{listener="verbs"}`] == 0, "not yet")
				})
			}
			waits, plain := s.Pod("one").GPUs(1).Create(), s.Pod("plain").Create()
			s.AllBound(plain)
			bed.Eventually(t, bed.Timeout, "a handshake is refused", func() error {
				return bed.Unless(s.Metrics()[`berth_http_events_total{event="tls_refused",listener="verbs"}`] > 0, "not yet")
			})
			s.NoneBound(waits)
			m.Put(issuer.Issue(bed.Leaf{CommonName: "berth"}), issuer.CA())
			s.AllBoundWithin(3*bed.Timeout, waits)
		})
	}
}

// What must not be served is refused at the start, with the reason.
func TestServeRefusesUnsafePorts(t *testing.T) {
	issuer := bed.NewIssuer(t)
	s := control.Scenario(t, bed.Options{NoExtender: true})
	good := issuer.Issue(bed.Leaf{CommonName: "berth"})
	m := bed.NewMount(t, good, issuer.CA())
	expired := bed.NewMount(t, issuer.Issue(bed.Leaf{CommonName: "berth", Until: time.Now().Add(-time.Minute)}), issuer.CA())
	mismatched := bed.NewMount(t, bed.Pair{Cert: good.Cert, Key: issuer.Issue(bed.Leaf{}).Key}, issuer.CA())
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, 2, "plain text on loopback only"},
		{append(tlsFlags(m), "--client-allowed-names", schedulerName), 2, "--client-ca-file"},
		{[]string{"--client-ca-file", m.File("ca.crt")}, 2, "--tls-cert-file"},
		{tlsFlags(expired), 3, "is valid from"},
		{tlsFlags(mismatched), 3, "tls.key"},
		{append(tlsFlags(m), "--client-ca-file", empty), 3, "cannot use the client CA"},
		{[]string{"--ops-tls-cert-file", expired.File("tls.crt"), "--ops-tls-private-key-file", expired.File("tls.key")}, 3, "--ops-listen: the TLS certificate"},
		{[]string{"--leader-elect-renew-deadline", "15s"}, 2, "greater than"},
	} {
		args := append([]string{"serve", "--kubeconfig", "ADMIN", "--ops-listen", "127.0.0.1:0"}, c.args...)
		if c.args[0] != "--listen" {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		out, code := s.TryBerth(args...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit code %d, %s", c.args, code, out)
		}
	}
}

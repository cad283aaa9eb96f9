package bed

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Service stands for the Service in front of several replicas. Like a real one it
// chooses a pod for each connection, by its labels as they are then: what
// happens to a pod later ends no connection. It notes who answered what.
type Service struct {
	server    *httptest.Server
	leader    func() *Replica
	transport http.RoundTripper // to the replicas; nil: in plain text

	mu       sync.Mutex
	answers  []Answer
	inFlight map[string]int // by verb
}

// Answer is one call's.
type Answer struct {
	Replica string
	Verb    string
	Status  int // 0: none came
	Closed  bool
	At      time.Time
}

type backendKey struct{}

func newService(leader func() *Replica) *Service {
	v := unstartedService(leader)
	v.server.Start()
	return v
}

func unstartedService(leader func() *Replica) *Service {
	v := &Service{leader: leader, inFlight: map[string]int{}}
	v.server = httptest.NewUnstartedServer(v)
	v.server.Config.ErrorLog = discardLog
	v.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, backendKey{}, v.leader())
	}
	return v
}

// newTLSService is a Service that looks into what it passes on: to kube-scheduler
// it shows Berth's certificate, as it is in the Secret berth-tls at the time, and
// to Berth kube-scheduler's.
func newTLSService(s *Scenario) *Service {
	pair := func(secret string) (*tls.Certificate, error) {
		found, err := s.Client.CoreV1().Secrets(SystemNamespace).Get(s.ctx, secret, GetOptions)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(found.Data[corev1.TLSCertKey], found.Data[corev1.TLSPrivateKeyKey])
		return &pair, err
	}
	v := unstartedService(s.leader)
	v.server.TLS = &tls.Config{
		ClientAuth: tls.RequireAnyClientCert, // Berth checks whose it is
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return pair("berth-tls")
		},
	}
	v.transport = &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // kube-scheduler has verified the same certificate
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return pair("berth-scheduler-tls")
		},
	}}
	v.server.StartTLS()
	return v
}

// URL is where the verbs are.
func (v *Service) URL() string { return v.server.URL }

func (v *Service) close() {
	v.server.CloseClientConnections()
	v.server.Close()
}

func (v *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	replica, _ := r.Context().Value(backendKey{}).(*Replica)
	if replica == nil {
		panic(http.ErrAbortHandler) // a Service without endpoints refuses
	}
	answer := Answer{Replica: replica.Name, Verb: strings.TrimPrefix(r.URL.Path, "/")}
	v.count(answer.Verb, 1)
	defer func() {
		answer.At = time.Now()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.inFlight[answer.Verb]--
		v.answers = append(v.answers, answer)
	}()
	to, err := url.Parse(replica.verbURL)
	if err != nil {
		panic(err)
	}
	proxy := httputil.ReverseProxy{
		Transport: v.transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(response *http.Response) error {
			answer.Status, answer.Closed = response.StatusCode, response.Close
			if response.Close {
				w.Header().Set("Connection", "close")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     discardLog,
	}
	proxy.ServeHTTP(w, r)
}

func (v *Service) count(verb string, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inFlight[verb] += n
}

// InFlight is how many calls of a verb have no answer yet.
func (v *Service) InFlight(verb string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.inFlight[verb]
}

// Answers returns those of one replica since a time.
func (v *Service) Answers(replica string, since time.Time) (found []Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.answers {
		if a.Replica == replica && !a.At.Before(since) {
			found = append(found, a)
		}
	}
	return found
}

// Turns names the replicas in the order in which they answered with success; a
// name that is there twice answered while another one did, or leads again.
func (v *Service) Turns() (turns []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.answers {
		if a.Status == http.StatusOK && (len(turns) == 0 || turns[len(turns)-1] != a.Replica) {
			turns = append(turns, a.Replica)
		}
	}
	return turns
}

// Outage returns how long after a time the first call was answered with success
// by a replica, or 0 where none was.
func (v *Service) Outage(replica string, since time.Time) time.Duration {
	for _, a := range v.Answers(replica, since) {
		if a.Status == http.StatusOK {
			return a.At.Sub(since)
		}
	}
	return 0
}

// LastSuccess is when a replica last answered a call with success.
func (v *Service) LastSuccess(replica string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range slices.Backward(v.answers) {
		if a.Replica == replica && a.Status == http.StatusOK {
			return a.At
		}
	}
	return time.Time{}
}

// FirstSuccess is when a call was answered with success for the first time after a
// time, by whichever replica; zero: none was.
func (v *Service) FirstSuccess(after time.Time) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.answers {
		if a.Status == http.StatusOK && a.At.After(after) {
			return a.At
		}
	}
	return time.Time{}
}

// postVerb sends one verb, on a connection that would be kept alive.
func postVerb(t testing.TB, base, verb, body string) *http.Response {
	t.Helper()
	client := http.Client{Timeout: Timeout, Transport: &http.Transport{}}
	response, err := client.Post(base+"/"+verb, "application/json", strings.NewReader(body))
	must(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	must(t, err)
	must(t, response.Body.Close())
	return response
}

package bed

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Service stands for the Service in front of several replicas. Like a real one it
// chooses a pod for each connection, by its labels as they are then: what
// happens to a pod later ends no connection. It notes who answered what.
type Service struct {
	server *httptest.Server

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

func newService(s *Scenario) *Service {
	v := &Service{inFlight: map[string]int{}}
	v.server = httptest.NewUnstartedServer(v)
	v.server.Config.ErrorLog = discardLog
	v.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, backendKey{}, s.leader())
	}
	v.server.Start()
	return v
}

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
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
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

package bed

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// LoopbackVariable is where the environment says on which loopback address everything
// listens: 127.0.0.1 unless given, or ::1 for a control plane that knows IPv6 alone.
const LoopbackVariable = "BERTH_E2E_LOOPBACK"

var loopback = cmp.Or(os.Getenv(LoopbackVariable), "127.0.0.1")

// IPv6 says whether the bed runs on IPv6 alone.
func IPv6() bool { return strings.Contains(loopback, ":") }

// LoopbackIP is the address on which everything listens.
func LoopbackIP() string { return loopback }

// Address is HOST:PORT on this machine.
func Address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// Loopback is a URL on this machine.
func Loopback(scheme string, port int, path string) string {
	return fmt.Sprintf("%s://%s%s", scheme, Address(port), path)
}

// Where free ports are taken from: below the ports that Linux gives to connections
// (from 32768 on) and below those of Services (from 30000 on), so that nothing takes
// a port between its choice and its use.
const firstPort, endOfPorts = 15000, 30000

// ports counts through the range. It starts at random, for suites that run side by side.
var ports = func() *atomic.Int64 {
	var start atomic.Int64
	start.Store(mathrand.Int64N(endOfPorts - firstPort))
	return &start
}()

// freePort returns a loopback TCP port that nobody listens on. It returns none twice
// before it has been through the whole range.
func freePort() (int, error) {
	var err error
	for range endOfPorts - firstPort {
		port := firstPort + int(ports.Add(1)%(endOfPorts-firstPort))
		var l net.Listener
		if l, err = net.Listen("tcp", Address(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// authority holds the one serving certificate of the bed, self-signed for the
// loopback address. The API server and the proxy in front of it share it, so
// that clients verify both with the same CA file.
type authority struct {
	certFile, keyFile string
	pem               []byte
	pair              tls.Certificate
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "berth-test-bed"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(48 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	a := &authority{
		certFile: filepath.Join(dir, "serving.crt"),
		keyFile:  filepath.Join(dir, "serving.key"),
		pem:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	if a.pair, err = tls.X509KeyPair(a.pem, keyPEM); err != nil {
		return nil, err
	}
	if err := os.WriteFile(a.certFile, a.pem, 0o644); err != nil {
		return nil, err
	}
	return a, os.WriteFile(a.keyFile, keyPEM, 0o600)
}

// pool returns the certificate as the set of roots to trust.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	return pool
}

// probeClient asks health endpoints of processes that sign their own
// certificates; nothing secret is sent.
var probeClient = &http.Client{
	Timeout: 2 * time.Second,
	Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
		Proxy:             nil,
	},
}

// get fetches a URL and fails on any status but 200.
func get(url string) ([]byte, error) { return getAs(url, "") }

// getAs is get with a bearer token, "" for none.
func getAs(url, token string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := probeClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return body, fmt.Errorf("GET %s: %s: %.300s", url, resp.Status, body)
	}
	return body, nil
}

package bed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Issuer is a certificate authority of a test's own.
type Issuer struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	root *x509.Certificate
	pem  []byte
}

// Leaf says what a certificate is for. Without names it is for the loopback
// address.
type Leaf struct {
	CommonName string
	DNSNames   []string
	From       time.Time // an hour ago unless given
	Until      time.Time // in a day unless given
}

// Pair is a certificate and its key in PEM.
type Pair struct{ Cert, Key []byte }

// NewIssuer makes a certificate authority.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	i := &Issuer{t: t, key: key, root: &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "test issuer"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(48 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, i.root, i.root, &key.PublicKey, key)
	must(t, err)
	i.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return i
}

// CA is the authority's own certificate.
func (i *Issuer) CA() []byte { return i.pem }

// Issue makes a certificate for servers and clients.
func (i *Issuer) Issue(leaf Leaf) Pair {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(i.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: leaf.CommonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     leaf.DNSNames,
	}
	if len(leaf.DNSNames) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	if !leaf.From.IsZero() {
		template.NotBefore = leaf.From
	}
	if !leaf.Until.IsZero() {
		template.NotAfter = leaf.Until
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.root, &key.PublicKey, i.key)
	must(i.t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(i.t, err)
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}
}

// Mount is a folder that looks and changes as a mounted Secret does: all files at
// once, by one symbolic link.
type Mount struct {
	t       testing.TB
	dir     string
	version int
}

// NewMount makes a folder with tls.crt, tls.key and ca.crt.
func NewMount(t testing.TB, pair Pair, ca []byte) *Mount {
	t.Helper()
	m := &Mount{t: t, dir: t.TempDir()}
	m.Put(pair, ca)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		must(t, os.Symlink(filepath.Join("..data", name), m.File(name)))
	}
	return m
}

// File is the path of a file.
func (m *Mount) File(name string) string { return filepath.Join(m.dir, name) }

// Put changes all files, and removes the old ones.
func (m *Mount) Put(pair Pair, ca []byte) {
	m.t.Helper()
	old := m.File(fmt.Sprintf("..v%d", m.version))
	m.version++
	name := fmt.Sprintf("..v%d", m.version)
	must(m.t, os.Mkdir(m.File(name), 0o755))
	for file, data := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": ca} {
		must(m.t, os.WriteFile(filepath.Join(m.File(name), file), data, 0o644))
	}
	must(m.t, os.Symlink(name, m.File("..data_tmp")))
	must(m.t, os.Rename(m.File("..data_tmp"), m.File("..data")))
	must(m.t, os.RemoveAll(old))
}

// Overwrite changes the certificate and its key in place, one after the other, as
// a careless script does.
func (m *Mount) Overwrite(pair Pair) {
	m.t.Helper()
	must(m.t, os.WriteFile(m.File("tls.crt"), pair.Cert, 0o644))
	must(m.t, os.WriteFile(m.File("tls.key"), pair.Key, 0o644))
}

// ServedCertificate is what the verbs' port of Berth shows, to a client with that
// certificate.
func (s *Scenario) ServedCertificate(client Pair) []byte {
	s.T.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if client.Cert != nil {
		pair, err := tls.X509KeyPair(client.Cert, client.Key)
		must(s.T, err)
		config.Certificates = []tls.Certificate{pair}
	}
	conn, err := tls.Dial("tcp", Address(s.verbPort), config)
	must(s.T, err)
	defer conn.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
}

package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Files name a certificate with its key, and who is believed; each may be "".
type Files struct{ Cert, Key, CA string }

// lookEvery is the time between two looks at the files.
const lookEvery = time.Second

// material is what is in the files.
type material struct {
	cert, key, ca []byte // as they were read

	pair *tls.Certificate // nil without
	pool *x509.CertPool   // nil: the system's
}

// keeper has the last good material of files, and looks for new one when it is asked.
type keeper struct {
	files Files
	bad   func(error) // told once of each new trouble with them

	mu     sync.Mutex
	now    *material
	looked time.Time
	doubts error // of the last look: a swap of two files is seen half done
	told   string
}

// keep reads the files, which have to be good.
func keep(files Files, bad func(error)) (*keeper, error) {
	m, err := files.read(nil)
	if err != nil {
		return nil, err
	}
	return &keeper{files: files, bad: bad, now: m, looked: time.Now()}, nil
}

// get is what counts now.
func (k *keeper) get() *material {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookEvery {
		return k.now
	}
	k.looked = time.Now()
	m, err := k.files.read(k.now)
	switch {
	case err == nil:
		k.now, k.told = m, ""
	case k.doubts != nil && err.Error() != k.told:
		k.told = err.Error()
		k.bad(err)
	}
	k.doubts = err
	return k.now
}

// read reads the files. If they are as before, so is what it returns.
func (f Files) read(before *material) (*material, error) {
	m := new(material)
	for _, file := range []struct {
		path string
		to   *[]byte
	}{{f.Cert, &m.cert}, {f.Key, &m.key}, {f.CA, &m.ca}} {
		if file.path == "" {
			continue
		}
		text, err := os.ReadFile(file.path)
		if err != nil {
			return nil, err
		}
		*file.to = text
	}
	if before != nil && bytes.Equal(m.cert, before.cert) && bytes.Equal(m.key, before.key) && bytes.Equal(m.ca, before.ca) {
		return before, nil
	}
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(m.cert, m.key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
		}
		m.pair = &pair
	}
	if f.CA != "" {
		m.pool = x509.NewCertPool()
		if !m.pool.AppendCertsFromPEM(m.ca) {
			return nil, fmt.Errorf("%s has no certificate in PEM", f.CA)
		}
	}
	return m, nil
}

// Check says what is wrong with files, or nil.
func (f Files) Check() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("a certificate needs its key, and a key its certificate")
	}
	_, err := f.read(nil)
	return err
}

// Version is the number of a TLS version: "1.2" or "1.3".
func Version(text string) (uint16, bool) {
	switch text {
	case "1.2":
		return tls.VersionTLS12, true
	case "1.3":
		return tls.VersionTLS13, true
	}
	return 0, false
}

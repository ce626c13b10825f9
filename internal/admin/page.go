package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

// The status page is plain files, and asks for nothing from elsewhere.
//
//go:embed page
var pageFiles embed.FS

// types are those of the page's files, whatever the machine says.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func routePage(mux *http.ServeMux, g *gate) {
	files, err := fs.ReadDir(pageFiles, "page")
	if err != nil {
		panic(err) // they are built in
	}
	for _, f := range files {
		text, err := pageFiles.ReadFile("page/" + f.Name())
		if err != nil {
			panic(err)
		}
		at := "GET /page/" + f.Name()
		if f.Name() == "index.html" {
			at = "GET /{$}"
		}
		mux.Handle(at, g.reads(pageFile(f.Name(), text)))
	}
}

// pageFile serves a file, which browsers keep and ask for again.
func pageFile(name string, text []byte) http.Handler {
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	kind := types[path.Ext(name)]
	if kind == "" {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	})
}

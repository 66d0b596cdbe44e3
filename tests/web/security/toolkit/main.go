// Prints what the Prometheus exporter toolkit does with web configuration files: one JSON line for each file.
//
// A file is served on a loopback port, and one request is made without a login and with a client that verifies nothing.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
)

type outcome struct {
	File    string `json:"file"`
	Accepts bool   `json:"accepts"`
	Error   string `json:"error,omitempty"`
	Scheme  string `json:"scheme,omitempty"`
	Status  int    `json:"status,omitempty"`
	Request string `json:"request_error,omitempty"`
}

func try(path string) outcome {
	result := outcome{File: filepath.Base(path)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	failed := make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), slog.LevelError)}
	flags := &web.FlagConfig{WebConfigFile: &path}
	go func() { failed <- web.Serve(listener, server, flags, slog.New(slog.NewTextHandler(io.Discard, nil))) }()
	select {
	case err := <-failed:
		result.Error = strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "")
		return result
	case <-time.After(150 * time.Millisecond):
	}
	result.Accepts = true
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, scheme := range []string{"https", "http"} {
		response, err := client.Get(scheme + "://" + listener.Addr().String() + "/")
		if err != nil {
			if scheme == "https" && !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
				result.Scheme, result.Request = scheme, err.Error()[strings.LastIndex(err.Error(), ": ")+2:]
				break
			}
			continue
		}
		response.Body.Close()
		result.Scheme, result.Status = scheme, response.StatusCode
		break
	}
	server.Close()
	return result
}

func main() {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/prometheus/exporter-toolkit" {
				version = module.Version
			}
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.Encode(map[string]string{"toolkit": version, "go": runtime.Version()})
	for _, path := range os.Args[1:] {
		encoder.Encode(try(path))
	}
}

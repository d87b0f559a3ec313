// Package deployment is the tests that judge the files of deploy and the pages
// of docs: with the programs that will read them (promtool, HAProxy, nginx,
// systemd), and against what the gateway really has, so that no page, alert or
// chart names a setting, metric or command that does not exist. Nothing can
// import it. It starts no gateway for longer than one question to it; clients
// behind real proxies are tested in internal/e2e, the chart in tools/deployment.
package deployment

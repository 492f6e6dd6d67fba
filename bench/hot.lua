-- Asks for the paths of a list, one after the other over all connections; at the end prints one
-- line of JSON. wrk -s hot.lua URL -- LIST
local requests, at = {}, 0

function init(args)
    for path in io.lines(args[1]) do
        requests[#requests + 1] = wrk.format("GET", path)
    end
end

function request()
    at = at + 1
    if at > #requests then at = 1 end
    return requests[at]
end

function done(summary, latency)
    local e = summary.errors
    io.write(string.format(
        '{"requests": %d, "seconds": %f, "bytes": %d, "errors": %d, "p50_us": %d, "p99_us": %d}\n',
        summary.requests, summary.duration / 1e6, summary.bytes,
        e.connect + e.read + e.write + e.status + e.timeout,
        latency:percentile(50), latency:percentile(99)))
end

// 100 MiB of buffers, and about as much in objects of JavaScript.
const buffers = Array.from({length: 100}, () => Buffer.alloc(1 << 20, 1));
const rows = Array.from({length: 1_000_000}, (_, i) => ({id: i, name: `row ${i}`}));
const {rss, heapTotal, external, arrayBuffers} = process.memoryUsage();
const mib = (bytes) => `${Math.round(bytes / (1 << 20))} MiB`;
console.log(`rss ${mib(rss)}, heapTotal ${mib(heapTotal)}, external ${mib(external)}, arrayBuffers ${mib(arrayBuffers)}`);
setTimeout(() => console.log(buffers.length + rows.length), 1e6);

// SPDX-License-Identifier: BSD-3-Clause
// Buffers outside the JavaScript heap, worker threads that exchange them, compression, hashes,
// large texts.
'use strict';
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');
const {createHash} = require('crypto');
const {spawnSync} = require('child_process');
const fs = require('fs');
const path = require('path');
const util = require('util');
const zlib = require('zlib');

function generator(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 4294967296 * n);
  };
}

const digest = (data) => createHash('sha256').update(data).digest('hex').slice(0, 32);

function churn(seed, rounds) {
  const random = generator(seed);
  const live = [];
  const hash = createHash('sha256');
  for (let i = 0; i < rounds; i++) {
    const size = 1 + random(i % 50 === 0 ? 300000 : 5000);
    const buffer =
        random(2) ? Buffer.alloc(size, i & 255) : Buffer.from(new ArrayBuffer(size)).fill(i & 255);
    buffer.writeUInt8(random(256), random(size));
    live.push(buffer);
    if (live.length > 200) hash.update(live.splice(random(live.length), 1)[0]);
  }
  return hash.update(Buffer.concat(live)).digest('hex').slice(0, 32);
}

function compress(seed) {
  const random = generator(seed);
  const text = Array.from({length: 20000}, () => 'word' + random(3000)).join(' ');
  const lines = [];
  for (const level of [1, 6, 9]) {
    const packed = zlib.deflateSync(text, {level});
    if (zlib.inflateSync(packed).toString() !== text) throw new Error('inflate');
    lines.push(packed.length + ':' + digest(packed));
  }
  const brotli =
      zlib.brotliCompressSync(text, {params: {[zlib.constants.BROTLI_PARAM_QUALITY]: 5}});
  if (zlib.brotliDecompressSync(brotli).toString() !== text) throw new Error('brotli');
  lines.push(brotli.length + ':' + digest(brotli));
  return lines.join(' ');
}

if (!isMainThread) {
  const {seed, shared} = workerData;
  const counters = new Int32Array(shared);
  const transfer = new Uint8Array(400000).map((_, i) => i * seed);
  const message = {seed, churn: churn(seed, 10000), zip: compress(seed), bytes: transfer};
  for (let i = 0; i < 10000; i++) Atomics.add(counters, i % counters.length, seed);
  parentPort.postMessage(message, [transfer.buffer]);
} else {
  main();
}

async function main() {
  console.log('churn', churn(1, 60000));
  console.log('zip', compress(2));

  const shared = new SharedArrayBuffer(64);
  const seeds = [3, 4, 5, 6, 7, 8];
  const results = await Promise.all(seeds.map(
      (seed) => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, {workerData: {seed, shared}});
        let result;
        worker.on('message', (m) => {
          result = m;
        });
        worker.on('error', reject);
        worker.on(
            'exit', (code) => (code === 0 ? resolve(result) : reject(new Error('exit ' + code))));
      })));
  for (const r of results)
    console.log('worker', r.seed, r.churn, r.zip, r.bytes.length, digest(r.bytes));
  console.log('shared', new Int32Array(shared).join(' '));

  // The thread pool: asynchronous compression and files, 40 at a time.
  const gzip = util.promisify(zlib.gzip);
  const gunzip = util.promisify(zlib.gunzip);
  const async = await Promise.all(Array.from({length: 40}, async (_, i) => {
    const input = Buffer.alloc(50000 + i * 1000, 'abc' + i);
    const packed = await gzip(input, {level: 1 + i % 9});
    const file = path.join(process.cwd(), 'file' + i);
    await fs.promises.writeFile(file, packed);
    const out = await gunzip(await fs.promises.readFile(file));
    return i + ':' + out.equals(input) + ':' + packed.length;
  }));
  console.log('pool', async.join(' '));

  const child = spawnSync(
      process.execPath, ['-e', 'process.stdout.write(Buffer.alloc(3e6, "x"))'], {maxBuffer: 1e7});
  console.log('child', child.status, digest(child.stdout));
  console.error('last words');
}

// SPDX-License-Identifier: BSD-3-Clause
// Buffers of many sizes outside the JavaScript heap, text encoded and decoded, objects as JSON.
'use strict';

let total = 0;
for (let round = 1; round <= Number(process.argv[2]); ++round) {
  let state = round;
  const live = new Array(2000);
  const records = [];
  for (let number = 0; number < 60000; ++number) {
    state = (state * 48271) % 2147483647;
    const buffer = Buffer.allocUnsafeSlow(16 + state % 4000);
    buffer[0] = state & 255;
    live[state % live.length] = buffer;
    total += buffer[0];
    if (number % 20 === 0) records.push({id: number, name: 'record' + state, tags: [state % 7]});
  }
  const text = JSON.stringify(records);
  total += JSON.parse(Buffer.from(text).toString()).length;
}
console.log(total);
